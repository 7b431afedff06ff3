# kind: 3 OneCycleLR over all steps, with momentum cycled too
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 4
torch.manual_seed(0)
x = torch.randn(123, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, epochs=EPOCHS, steps_per_epoch=len(loader))
model, optimizer, loader, scheduler = coadapt.prepare(model, optimizer, loader, scheduler)
for epoch in coadapt.epochs(EPOCHS):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
        scheduler.step()
    coadapt.report(lr=scheduler.get_last_lr()[0])
save(model, momentum=optimizer.param_groups[0]["momentum"])
