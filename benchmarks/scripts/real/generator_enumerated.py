# kind: 3 a generator around the loader, enumerated from 1
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


def move(loader):
    for batch in loader:
        yield [t.to("cpu") for t in batch]


count = 0
for epoch in coadapt.epochs(20):
    for i, (a, b) in enumerate(move(loader), start=1):
        saw(a, epoch)
        F.cross_entropy(model(a), b).backward()
        if i % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
            count += 1
save(model, count=count)
