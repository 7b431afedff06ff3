# kind: 6 a dictionary of losses, summed for the backward, averaged by a dictionary of lists
from collections import defaultdict

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    log = defaultdict(list)
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        losses = {"mse": nn.functional.mse_loss(out, b), "l1": 0.1 * nn.functional.l1_loss(out, b)}
        sum(losses.values()).backward()
        optimizer.step()
        for name, value in losses.items():
            log[name].append(value.item())
    coadapt.report(**{name: sum(values) / len(values) for name, values in log.items()})
save(model)
