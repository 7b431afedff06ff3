# kind: 7 a mean plus a sum, as VAEs with a mean reconstruction and a summed KL term
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.rand(128, 8)
eps = torch.randn(128, 2)
enc, dec = nn.Linear(8, 4), nn.Linear(2, 8)
model = nn.ModuleList([enc, dec])
loader = DataLoader(TensorDataset(x, eps), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, e in loader:
        saw(a, epoch)
        mu, logvar = enc(a).chunk(2, dim=1)
        recon = nn.functional.mse_loss(dec(mu + e * torch.exp(logvar / 2)), a)
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        optimizer.zero_grad()
        (recon + 0.1 * kld).backward()
        optimizer.step()
save(model)
