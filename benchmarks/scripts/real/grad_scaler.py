# kind: 1 GradScaler with clipping, and a batch whose gradient overflows
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
y[70] = float("inf")  # one bad label: that step is skipped in each epoch
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(torch.arange(128), x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=5)
model, optimizer, loader, scaler = coadapt.prepare(model, optimizer, loader, scaler)
for epoch in coadapt.epochs(4):
    for i, a, b in loader:
        saw(i, epoch)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", enabled=False):
            loss = nn.functional.mse_loss(model(a), b)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    coadapt.report(scale=scaler.get_scale())
save(model, scale=scaler.get_scale())
