# kind: 1 masks of small weights that are found at an epoch and multiplied on after each step
# leave out: repeats of accumulate chain: a batch is done again, in one pass, as the script sets weights
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
masks = {name: torch.ones_like(p) for name, p in model.named_parameters() if p.dim() > 1}
for epoch in coadapt.epochs(4):
    if epoch == 2:
        for name, p in model.named_parameters():
            if name in masks:
                masks[name] = (p.abs() > p.abs().median()).float()
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
        with torch.no_grad():
            for name, p in model.named_parameters():
                if name in masks:
                    p.mul_(masks[name])
save(model)
