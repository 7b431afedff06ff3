# kind: 3 the learning rate set by hand in each iteration: warm-up and cosine
import math

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def get_lr(it, total, base=0.1, warmup=6):
    if it < warmup:
        return base * (it + 1) / warmup
    return base * 0.5 * (1 + math.cos(math.pi * (it - warmup) / (total - warmup)))


torch.manual_seed(0)
x = torch.randn(123, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
epochs = 4
for epoch in coadapt.epochs(epochs):
    for i, (a, b) in enumerate(loader):
        saw(a, epoch)
        lr = get_lr(epoch * len(loader) + i, epochs * len(loader))
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
save(model, lr=lr)
