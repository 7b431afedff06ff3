# kind: 1 DANN: a gradient reversal layer whose strength goes by the progress of the training
# leave out: repeats of all: batches may be done again as a whole to find out what the loss is
import math

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.neg() * ctx.strength, None


class DANN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
        self.labels, self.domain = nn.Linear(16, 3), nn.Linear(16, 2)

    def forward(self, x, strength):
        h = self.features(x)
        return self.labels(h), self.domain(Reverse.apply(h, strength))


torch.manual_seed(0)
source, target = torch.randn(128, 6), torch.randn(128, 6) + 1
y = source[:, :3].argmax(1)
model = DANN()
loader = DataLoader(TensorDataset(source, y, target), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for i, (s, k, t) in enumerate(loader):
        saw(s, epoch)
        p = (i + epoch * len(loader)) / (4 * len(loader))
        strength = 2.0 / (1.0 + math.exp(-10 * p)) - 1
        classes, domain = model(s, strength)
        loss = F.cross_entropy(classes, k) + F.cross_entropy(domain, torch.zeros(len(s), dtype=torch.long))
        _, domain = model(t, strength)
        loss = loss + F.cross_entropy(domain, torch.ones(len(t), dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
