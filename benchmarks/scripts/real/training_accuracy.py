# kind: 6 a pass over the training data without training after each epoch, the best one kept
import copy

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
best, kept = float("inf"), None
for epoch in coadapt.epochs(4):
    model.train()
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for a, b in loader:
            total += nn.functional.mse_loss(model(a), b, reduction="sum").item()
            count += len(a)
    loss = coadapt.combine(total / count)
    if loss < best:
        best, kept = loss, copy.deepcopy(model.state_dict())
    coadapt.report(loss=total / count)
model.load_state_dict(kept)
save(model, best=best)
