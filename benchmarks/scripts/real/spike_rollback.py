# kind: 8 a spike of the loss: the last good state is loaded and the batch is skipped
# leave out: repeats of all: the first batches may be given twice, as parameters are changed
import copy

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = x.sum(1, keepdim=True)
y[80:96] += 40.0
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
good = {"model": copy.deepcopy(model.state_dict()), "optimizer": copy.deepcopy(optimizer.state_dict())}
rollbacks, step = 0, 0
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        loss = F.mse_loss(model(a), b)
        if coadapt.combine(loss.item()) > 200.0:
            model.load_state_dict(good["model"])
            optimizer.load_state_dict(good["optimizer"])
            rollbacks += 1
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 3 == 0:
            good = {
                "model": copy.deepcopy(model.state_dict()),
                "optimizer": copy.deepcopy(optimizer.state_dict()),
            }
save(model, rollbacks=rollbacks, steps=step)
