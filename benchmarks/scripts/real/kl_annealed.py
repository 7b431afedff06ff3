# kind: 7 two terms of which one is weighed by how many steps were made
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
step = 0
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        beta = min(1.0, step / 20)
        (nn.functional.mse_loss(out, b, reduction="sum") / len(a) + beta * out.square().sum(1).mean()).backward()
        optimizer.step()
        step += 1
save(model, step=step)
