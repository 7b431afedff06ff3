# kind: 12 a time limit that is far away, looked at at each batch
import time

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

begun = time.time()
stop = False
for epoch in coadapt.epochs(4):
    for a, b in loader:
        if time.time() - begun > 3600:
            stop = True
            break
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
    if stop:
        break
save(model, stopped=stop)
