# kind: 8 a scheduler class of its own, with state, stepped for each batch
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


class Warmup:
    def __init__(self, optimizer, steps, top):
        self.optimizer, self.steps, self.top, self.t = optimizer, steps, top, 0

    def step(self):
        self.t += 1
        lr = self.top * min(1.0, self.t / self.steps) * 0.99**self.t
        for group in self.optimizer.param_groups:
            group["lr"] = lr


warmup = Warmup(optimizer, 10, 0.1)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        warmup.step()
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
save(model, t=warmup.t)
