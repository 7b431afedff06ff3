# kind: 7 two summed losses, the second brought to the size of the first
# leave out: repeats of all: every replica computes whole batches, as the weight is of a whole one
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.rand(128, 8)
enc, dec = nn.Linear(8, 3), nn.Linear(3, 8)
model = nn.Sequential(enc, dec)
loader = DataLoader(TensorDataset(x), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=2e-3)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for (a,) in loader:
        saw(a, epoch)
        z = enc(a)
        recon = F.mse_loss(dec(z), a, reduction="sum")
        sparse = z.abs().sum()
        weight = (recon / sparse).detach()
        loss = recon + weight * sparse
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
