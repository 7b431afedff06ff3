# kind: 8 steps with a gradient far larger than the running average of norms are skipped
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(132, 6)
y = x.sum(1, keepdim=True)
y[32:48] *= 6.0
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=12)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)


class NormGuard:
    def __init__(self, beta=0.9, factor=1.8):
        self.beta, self.factor, self.ema, self.skipped = beta, factor, None, 0

    def ok(self, norm):
        if self.ema is not None and norm > self.factor * self.ema:
            self.skipped += 1
            return False
        self.ema = norm if self.ema is None else self.beta * self.ema + (1 - self.beta) * norm
        return True


guard = NormGuard()
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.mse_loss(model(a), b).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item()
        if guard.ok(norm):
            optimizer.step()
save(model, skipped=guard.skipped, ema=guard.ema)
