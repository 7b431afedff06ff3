# kind: 11 VQ-VAE: codes that follow the encoder by an average of their own, in buffers
# leave out: repeats of all: batches are done again as a whole to find out what the loss is
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Codebook(nn.Module):
    def __init__(self, codes, dim, decay=0.9):
        super().__init__()
        self.decay = decay
        self.register_buffer("codes", torch.randn(codes, dim))
        self.register_buffer("cluster_size", torch.ones(codes))
        self.register_buffer("average", self.codes.clone())

    def forward(self, z):
        index = torch.cdist(z.detach(), self.codes).argmin(1)
        one_hot = F.one_hot(index, len(self.codes)).float()
        quantised = self.codes[index]
        if self.training:
            with torch.no_grad():
                self.cluster_size.mul_(self.decay).add_(one_hot.sum(0), alpha=1 - self.decay)
                self.average.mul_(self.decay).add_(one_hot.t() @ z, alpha=1 - self.decay)
                self.codes.copy_(self.average / (self.cluster_size + 1e-5).unsqueeze(1))
        commitment = F.mse_loss(z, quantised.detach())
        return z + (quantised - z).detach(), commitment


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(8, 3), nn.Linear(3, 8)
        self.vq = Codebook(6, 3)

    def forward(self, x):
        z, commitment = self.vq(self.enc(x))
        return self.dec(z), commitment


torch.manual_seed(0)
x = torch.randn(128, 8)
model = VQVAE()
loader = DataLoader(TensorDataset(x), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for (a,) in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        recon, commitment = model(a)
        loss = F.mse_loss(recon, a) + 0.25 * commitment
        loss.backward()
        optimizer.step()
save(model)
