# kind: 1, 8 the best model so far kept by copy.deepcopy in a variable
import copy

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(128, 8), torch.randn(128, 1)
val_x, val_y = torch.randn(64, 8), torch.randn(64, 1)
model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
best_loss, best_model = float("inf"), None
for epoch in coadapt.epochs(5):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    with torch.no_grad():
        val = nn.functional.mse_loss(model(val_x), val_y).item()
    if val < best_loss:
        best_loss = val
        best_model = copy.deepcopy(model)
    coadapt.report(val=val)
save({"last": model, "best": best_model}, best=best_loss)
