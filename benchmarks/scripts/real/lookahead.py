# kind: 11 Lookahead: every fifth step the weights go half way to a slow copy, which a list in the script holds
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
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
slow = [p.detach().clone() for p in model.parameters()]
count = 0
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
        count += 1
        if count % 5 == 0:
            with torch.no_grad():
                for p, s in zip(model.parameters(), slow):
                    s += 0.5 * (p - s)
                    p.copy_(s)
save(model, count=count)
