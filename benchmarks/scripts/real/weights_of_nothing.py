# kind: 7 the weight of a loss is said, and is 0 in parts of a batch
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(96, 6)
y = x.sum(1, keepdim=True).sin()
marked = torch.arange(96) % 16 < 3
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y, marked), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

for epoch in coadapt.epochs(6):
    for a, b, m in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        coadapt.weight(m.sum())
        (model(a)[m] - b[m]).square().mean().backward()
        optimizer.step()
save(model)
