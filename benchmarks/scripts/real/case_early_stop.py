# kind: 12 case early_stop: patience, then break out of the epoch loop
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
optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
best, bad = 1e9, 0
for epoch in coadapt.epochs(200):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        val = nn.functional.mse_loss(model(x), y).item()
    coadapt.report(val_loss=val)
    if val < best - 0.7:
        best, bad = val, 0
    else:
        bad += 1
    if bad >= 3:
        print("early stop at epoch", epoch)
        break
save(model, best=best, bad=bad, stopped=epoch)
