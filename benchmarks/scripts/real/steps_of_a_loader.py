# kind: 4 a loop in steps that begins the loader anew when it ends
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(120, 8)
y = x @ torch.randn(8, 1)
model = nn.Linear(8, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 36)
model, optimizer, loader, scheduler = coadapt.prepare(model, optimizer, loader, scheduler)
it = iter(loader)
for step in coadapt.steps(36):
    try:
        a, b = next(it)
    except StopIteration:
        it = iter(loader)
        a, b = next(it)
    saw(a)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(a), b).backward()
    optimizer.step()
    scheduler.step()
save(model, lr=scheduler.get_last_lr()[0])
