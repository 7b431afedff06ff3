# kind: 8 ReduceLROnPlateau on a validation loss, early stopping on the learning rate
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(64, 8), torch.randn(64, 1)
val_x, val_y = torch.randn(32, 8), torch.randn(32, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "min", factor=0.5, patience=1)
model, optimizer, loader, scheduler = coadapt.prepare(model, optimizer, loader, scheduler)
for epoch in coadapt.epochs(40):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    with torch.no_grad():
        val = nn.functional.mse_loss(model(val_x), val_y).item()
    scheduler.step(val)
    coadapt.report(val=val, lr=optimizer.param_groups[0]["lr"])
    if optimizer.param_groups[0]["lr"] < 0.02:
        break
save(model, epoch=epoch, lr=optimizer.param_groups[0]["lr"])
