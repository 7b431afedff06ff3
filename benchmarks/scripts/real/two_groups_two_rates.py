# kind: 8 parameter groups with rates and decays of their own, changed by name at an epoch
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
optimizer = torch.optim.AdamW(
    [
        {"params": model[0].parameters(), "lr": 0.01, "weight_decay": 0.1, "name": "body"},
        {"params": model[2].parameters(), "lr": 0.02, "weight_decay": 0.0, "name": "head"},
    ]
)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    if epoch == 2:
        for group in optimizer.param_groups:
            if group["name"] == "head":
                group["lr"] *= 0.1
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
save(model)
