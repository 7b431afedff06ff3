# kind: 8 AutoClip: gradients are clipped at a quantile of the norms so far
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(132, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

norms = []
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        total = sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5
        norms.append(total.item())
        nn.utils.clip_grad_norm_(model.parameters(), sorted(norms)[len(norms) // 2])
        optimizer.step()
save(model, count=len(norms))
