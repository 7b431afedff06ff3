# kind: 4 no loader: the script shuffles indices and takes slices of them, in a generator
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn

torch.manual_seed(0)
x = torch.randn(100, 6)
y = (x.sum(1) > 0).long()
order = torch.Generator().manual_seed(1)


def slices():
    perm = torch.randperm(len(x), generator=order)
    for i in range(0, len(x), 16):
        idx = perm[i : i + 16]
        yield x[idx], y[idx]


model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, batches = coadapt.prepare(model, optimizer, coadapt.batches(slices))
for epoch in coadapt.epochs(4):
    for a, b in batches:
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
save(model)
