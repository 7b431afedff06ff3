# kind: 8 an optimizer for each of two phases
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
second = torch.optim.Adam(model.parameters(), lr=0.01)
model, optimizer, second, loader = coadapt.prepare(model, optimizer, second, loader)

for epoch in coadapt.epochs(3):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
for epoch in coadapt.epochs(3):
    for a, b in loader:
        saw(a, 10 + epoch)
        second.zero_grad()
        F.cross_entropy(model(a), b).backward()
        second.step()
save(model)
