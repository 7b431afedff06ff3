# kind: 8 a batch sampler of its own that balances classes, with a generator
import coadapt
import numpy as np
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset


class Balanced(Sampler):
    def __init__(self, labels, batch_size):
        self.groups = [np.flatnonzero(labels == c) for c in np.unique(labels)]
        self.batch_size, self.rng = batch_size, np.random.default_rng(0)

    def __len__(self):
        return 8

    def __iter__(self):
        for _ in range(len(self)):
            picked = [self.rng.choice(g, self.batch_size // len(self.groups), replace=False) for g in self.groups]
            yield np.concatenate(picked).tolist()


torch.manual_seed(0)
x = torch.randn(128, 8)
labels = (x[:, 0] > 0.7).long().numpy()
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
data = TensorDataset(torch.arange(128), x, torch.from_numpy(labels))
loader = DataLoader(data, batch_sampler=Balanced(labels, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for i, a, b in loader:
        saw(i, epoch)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
save(model)
