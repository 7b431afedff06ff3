# kind: 1 SAM: the gradient at a point that lies uphill, two passes for one step
# leave out: repeats of accumulate: a batch is done again, in one pass, when it is seen that the script climbs
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
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        F.cross_entropy(model(a), b).backward()
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
            climbed = [p.grad * 0.05 / (norm + 1e-12) for p in model.parameters()]
            for p, e in zip(model.parameters(), climbed):
                p.add_(e)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        with torch.no_grad():
            for p, e in zip(model.parameters(), climbed):
                p.sub_(e)
        optimizer.step()
        optimizer.zero_grad()
save(model)
