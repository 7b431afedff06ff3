# kind: 7 the largest of the means over groups
# leave out: repeats of all: every replica computes whole batches, as the largest mean is none over samples
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        each = (model(a) - b).square().squeeze(1)
        group = (a[:, 0] > 0).long()
        means = torch.stack([each[group == g].mean() for g in (0, 1)])
        means.max().backward()
        optimizer.step()
save(model)
