# kind: 9 an IterableDataset that splits nothing, with a shuffle buffer of its own
import random

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Lines(IterableDataset):
    def __init__(self, n, buffer):
        self.n, self.buffer, self.epoch = n, buffer, 0

    def __iter__(self):
        rng, held = random.Random(5), []
        for i in range(self.n):
            held.append(i)
            if len(held) >= self.buffer:
                yield self.parse(held.pop(rng.randrange(len(held))))
        while held:
            yield self.parse(held.pop(rng.randrange(len(held))))

    def parse(self, i):
        x = torch.arange(8).float().add(i).sin()
        return i, x, x.sum(0, keepdim=True)


torch.manual_seed(0)
model = nn.Linear(8, 1)
loader = DataLoader(Lines(125, 20), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    total, n = 0.0, 0
    for i, a, b in loader:
        saw(i, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        total, n = total + loss.item() * len(i), n + len(i)
    coadapt.report(loss=total / n)
save(model)
