# kind: 1 clipping by value and an adaptive clipping of one's own that reads .grad
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def adaptive_clip(parameters, factor=0.02):
    clipped = 0
    for p in parameters:
        if p.grad is None:
            continue
        most = factor * p.detach().norm().clamp(min=1e-3)
        norm = p.grad.norm()
        if norm > most:
            p.grad.mul_(most / norm)
            clipped += 1
    return clipped


torch.manual_seed(0)
x = torch.randn(123, 8)
y = 5 * x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        adaptive_clip(model.parameters())
        optimizer.step()
save(model)
