# kind: 3, 6 a counter of updates that grows by two for each batch, by which the rate goes
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
updates = 0
for epoch in coadapt.epochs(5):
    hits = 0
    for a, b in loader:
        saw(a, epoch)
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * 0.98**updates
        optimizer.zero_grad()
        out = model(a)
        F.cross_entropy(out, b).backward()
        optimizer.step()
        updates += 2
        hits += int((out.argmax(1) == b).sum())
    coadapt.report(accuracy=hits / len(x))
save(model, updates=updates)
