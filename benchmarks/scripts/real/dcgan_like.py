# kind: 11 DCGAN: two models given, real and fake passes apart, noise from the data set
# leave out: metrics of grow chain: the loss of a last batch is weighted by the samples of the whole pass
# leave out: repeats of accumulate chain: the first batch of several steps is done again, in one pass
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
real_data, noise = torch.randn(128, 4) + 1, torch.randn(128, 3)
netG = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
netD = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid())
criterion = nn.BCELoss()
optimizerD = torch.optim.SGD(netD.parameters(), lr=0.05, momentum=0.5)
optimizerG = torch.optim.SGD(netG.parameters(), lr=0.05, momentum=0.5)
loader = DataLoader(TensorDataset(real_data, noise), batch_size=16)
netD, netG, optimizerD, optimizerG, loader = coadapt.prepare(netD, netG, optimizerD, optimizerG, loader)
for epoch in coadapt.epochs(4):
    for i, (real, z) in enumerate(loader, 0):
        saw(real, epoch)
        netD.zero_grad()
        label = torch.full((real.size(0),), 1.0)
        errD_real = criterion(netD(real).view(-1), label)
        errD_real.backward()
        fake = netG(z)
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()).view(-1), label)
        errD_fake.backward()
        optimizerD.step()
        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake).view(-1), label)
        errG.backward()
        optimizerG.step()
    coadapt.report(loss_d=errD_real.item() + errD_fake.item(), loss_g=errG.item())
save({"D": netD, "G": netG})
