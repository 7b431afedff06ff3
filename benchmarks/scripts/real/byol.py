# kind: 11 BYOL: an online net with a predictor, a target that follows it by a rate that goes up with the steps
# leave out: repeats of all: batches are done again as a whole to find out what the loss is
import copy
import math

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def mlp(a, b):
    return nn.Sequential(nn.Linear(a, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, b))


class BYOL(nn.Module):
    def __init__(self):
        super().__init__()
        self.online, self.predictor = mlp(8, 4), mlp(4, 4)
        self.target = copy.deepcopy(self.online)
        for p in self.target.parameters():
            p.requires_grad = False

    @torch.no_grad()
    def update_target(self, tau):
        for online, target in zip(self.online.parameters(), self.target.parameters()):
            target.data = tau * target.data + (1 - tau) * online.data

    def forward(self, one, two):
        p1, p2 = self.predictor(self.online(one)), self.predictor(self.online(two))
        with torch.no_grad():
            t1, t2 = self.target(one), self.target(two)
        return (regression(p1, t2.detach()) + regression(p2, t1.detach())).mean()


def regression(p, t):
    return 2 - 2 * (F.normalize(p, dim=-1) * F.normalize(t, dim=-1)).sum(dim=-1)


torch.set_default_dtype(torch.float64)  # normalised outputs of three layers lose float32 digits
torch.manual_seed(0)
one = torch.randn(128, 8)
two = one + 0.2 * torch.randn(128, 8)
model = BYOL()
loader = DataLoader(TensorDataset(one, two), batch_size=16)
optimizer = torch.optim.SGD([*model.online.parameters(), *model.predictor.parameters()], lr=0.05, momentum=0.9)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
step, total = 0, 4 * len(loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        loss = model(a, b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.update_target(1 - 0.1 * (math.cos(math.pi * step / total) + 1) / 2)
        step += 1
save(model, step=step)
