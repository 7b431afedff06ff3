# kind: 8 a list of records, one object for each epoch, of which the best is used
from dataclasses import dataclass

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Record:
    epoch: int
    val: float
    lr: float


torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
history = []
for epoch in coadapt.epochs(5):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        val = F.cross_entropy(model(x), y).item()
    history.append(Record(epoch, val, optimizer.param_groups[0]["lr"]))
    if len(history) >= 3:
        optimizer.param_groups[0]["lr"] = 0.1 * history[0].val / history[-1].val
    coadapt.report(val=val)
best = min(history, key=lambda record: record.val)
save(model, epochs=[r.epoch for r in history], best=best.epoch, lr=optimizer.param_groups[0]["lr"])
