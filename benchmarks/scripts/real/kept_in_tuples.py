# kind: 6 meters and the best model in tuples, copies of the model in a list, an object with slots
import copy

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Meter:
    __slots__ = ("count", "sum")

    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n):
        self.sum += value * n
        self.count += n


torch.manual_seed(0)
x = torch.randn(132, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

main_loss, best = 0.0, (float("inf"), None)
snapshots = []
for epoch in coadapt.epochs(4):
    meters = (Meter(), Meter())
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        loss = F.cross_entropy(out, b)
        loss.backward()
        optimizer.step()
        meters[0].update(loss.item(), len(a))
        meters[1].update((out.argmax(1) == b).float().mean().item(), len(a))
    with torch.no_grad():
        main_loss = F.cross_entropy(model(x), y).item()
    if main_loss < best[0]:
        best = (main_loss, copy.deepcopy(model))
    snapshots.append(copy.deepcopy(model))
    coadapt.report(loss=meters[0].sum / meters[0].count, accuracy=meters[1].sum / meters[1].count)
models = {"model": model, "best": best[1]} | {f"model {i}": one for i, one in enumerate(snapshots)}
save(models, main_loss=round(main_loss, 3))
