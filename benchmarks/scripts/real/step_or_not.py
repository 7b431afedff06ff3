# kind: 2 the norm of the gradient decides on a step
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

skipped = 0
norms = []
for epoch in coadapt.epochs(5):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
        norms.append(float(norm))
        if norm > 0.62:
            skipped += 1
            continue
        optimizer.step()
save(model, skipped=skipped, norms=len(norms))
