# kind: 6 meters are made in a dictionary when a name is logged first
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Meter:
    def __init__(self):
        self.sum, self.n = 0.0, 0

    def add(self, value, n):
        self.sum += value * n
        self.n += n


torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    meters = {}
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        optimizer.step()
        meters.setdefault("loss", Meter()).add(loss.item(), len(a))
    coadapt.report(**{name: meter.sum / meter.n for name, meter in meters.items()})
save(model)
