# kind: 8 the best epoch so far as an object, made anew whenever there is a better one
import copy
from dataclasses import dataclass

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Best:
    epoch: int
    val: float
    state: dict


torch.manual_seed(0)
x = torch.randn(128, 6)
y = (torch.randn(128) > 0).long()
val_x, val_y = torch.randn(64, 6), (torch.randn(64) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
best = None
for epoch in coadapt.epochs(6):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        val = F.cross_entropy(model(val_x), val_y).item()
    if best is None or val < best.val:
        best = Best(epoch, val, copy.deepcopy(model.state_dict()))
    coadapt.report(val=val, best=best.val)
model.load_state_dict(best.state)
save(model, best=best.epoch, val=best.val)
