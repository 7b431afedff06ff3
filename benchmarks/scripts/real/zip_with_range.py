# kind: 3 batches numbered by zip and a range, accumulated by those numbers
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

steps = 0
for epoch in coadapt.epochs(14):
    for i, (a, b) in zip(range(5), loader):
        saw(a, epoch)
        F.cross_entropy(model(a), b).backward()
        if i % 2 == 1:
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
    optimizer.zero_grad()
save(model, steps=steps)
