# kind: 4 the rate falls where a counter comes to a milestone
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

step = 0
milestones = (11, 25)
for epoch in coadapt.epochs(5):
    for a, b in loader:
        if step in milestones:
            for group in optimizer.param_groups:
                group["lr"] *= 0.3
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
        step += 1
save(model, lr=round(optimizer.param_groups[0]["lr"], 6))
