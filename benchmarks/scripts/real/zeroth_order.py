# kind: 1 parameters that follow two losses, without a backward
# expect: refused all: replicas would follow losses of their own parts, without an optimizer
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
parameters = list(model.parameters())
generator = torch.Generator().manual_seed(1)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        noise = [torch.randn(p.shape, generator=generator) for p in parameters]
        losses = []
        with torch.no_grad():
            for sign in (1.0, -2.0):
                for p, n in zip(parameters, noise):
                    p += 0.01 * sign * n
                losses.append(nn.functional.mse_loss(model(a), b).item())
            slope = (losses[0] - losses[1]) / 0.02
            for p, n in zip(parameters, noise):
                p += 0.01 * n - 0.01 * slope * n
save(model)
