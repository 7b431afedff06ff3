# kind: 3 a sum of losses that begins anew after every fourth batch
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

running = 0.0
printed = []
for epoch in coadapt.epochs(5):
    for i, (a, b) in enumerate(loader, 0):
        saw(a, epoch)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        optimizer.step()
        running += loss.item()
        if i % 4 == 3:
            printed.append(running / 4)
            running = 0.0
save(model, count=len(printed), left=running, near=round(sum(printed) / len(printed), 1))
