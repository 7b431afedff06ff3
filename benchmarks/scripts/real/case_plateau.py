# kind: 8 case plateau: ReduceLROnPlateau on the mean training loss
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(64, 8), torch.randn(64, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=3e-2)
model, optimizer, loader, scheduler = coadapt.prepare(model, optimizer, loader, scheduler)
lrs = []
for epoch in coadapt.epochs(10):
    total, n = 0.0, 0
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(a)
        n += len(a)
    scheduler.step(total / n)
    lrs.append(optimizer.param_groups[0]["lr"])
    coadapt.report(loss=total / n, lr=lrs[-1])
save(model, lrs=lrs)
