# kind: 3 CosineAnnealingWarmRestarts with fractions of an epoch
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(123, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
model, optimizer, loader, scheduler = coadapt.prepare(model, optimizer, loader, scheduler)
iters = len(loader)
lrs = []
for epoch in coadapt.epochs(4):
    for i, (a, b) in enumerate(loader):
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
        scheduler.step(epoch + i / iters)
        lrs.append(scheduler.get_last_lr()[0])
save(model, lrs=lrs)
