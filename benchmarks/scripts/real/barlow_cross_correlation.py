# kind: 7 Barlow Twins: the cross-correlation of 64 features over the batch
# leave out: repeats of all: every replica computes whole batches, as samples meet in the loss
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def off_diagonal(c):
    n = len(c)
    return c.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten()


torch.manual_seed(0)
one = torch.randn(128, 8)
two = one + 0.1 * torch.randn(128, 8)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 64), nn.LayerNorm(64, elementwise_affine=False))
loader = DataLoader(TensorDataset(one, two), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=2e-3)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        c = model(a).T @ model(b) / len(a)
        loss = (torch.diagonal(c) - 1).pow(2).sum() + 0.005 * off_diagonal(c).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
