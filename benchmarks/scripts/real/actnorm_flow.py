# kind: 8 Glow's ActNorm: scale and shift are set by the first batch, then trained
# leave out: repeats of all: the first batch is done again as a whole
import math

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.loc, self.log_scale = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8))

    def forward(self, x):
        if self.training and self.initialized.item() == 0:
            with torch.no_grad():
                self.loc.data.copy_(-x.mean(0))
                self.log_scale.data.copy_(-torch.log(x.std(0) + 1e-6))
            self.initialized.fill_(1)
        return (x + self.loc) * self.log_scale.exp(), self.log_scale.sum().expand(len(x))


class Coupling(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim // 2, 16), nn.ReLU(), nn.Linear(16, dim))

    def forward(self, x):
        a, b = x.chunk(2, 1)
        log_s, t = self.net(a).chunk(2, 1)
        log_s = torch.tanh(log_s)
        return torch.cat([b * log_s.exp() + t, a], 1), log_s.sum(1)


class Flow(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.layers = nn.ModuleList(layer for _ in range(depth) for layer in (ActNorm(dim), Coupling(dim)))

    def log_prob(self, x):
        log_det = 0
        for layer in self.layers:
            x, more = layer(x)
            log_det = log_det + more
        prior = -0.5 * (x.pow(2) + math.log(2 * math.pi)).sum(1)
        return prior + log_det


torch.manual_seed(0)
x = 3 * torch.randn(128, 4) + torch.arange(128)[:, None] / 64
model = Flow(4, 3)
loader = DataLoader(TensorDataset(x), batch_size=16)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    total = 0.0
    for (a,) in loader:
        saw(a, epoch)
        loss = -model.log_prob(a).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    coadapt.report(nll=total / len(loader))
save(model)
