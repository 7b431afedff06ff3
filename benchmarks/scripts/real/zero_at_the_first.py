# kind: 3 gradients are dropped at the first of each four batches, and stepped by at the last
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
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

for epoch in coadapt.epochs(14):
    for i, (a, b) in enumerate(loader):
        saw(a, epoch)
        if i % 4 == 0:
            optimizer.zero_grad()
        (F.cross_entropy(model(a), b) / 4).backward()
        if i % 4 == 3:
            optimizer.step()
save(model)
