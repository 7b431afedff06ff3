# kind: 8, 10 batches that grow with the epochs, by the batch size of a sampler of its own
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class GrowingBatches:
    def __init__(self, size, batch_size):
        self.size, self.batch_size = size, batch_size

    def __iter__(self):
        for first in range(0, self.size, self.batch_size):
            yield list(range(first, min(first + self.batch_size, self.size)))

    def __len__(self):
        return -(-self.size // self.batch_size)


torch.manual_seed(0)
x = torch.randn(160, 6)
y = (x.sum(1) > 0).long()
sampler = GrowingBatches(160, 16)
loader = DataLoader(TensorDataset(x, y), batch_sampler=sampler)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
lengths, best, stale = [], float("inf"), 0
for epoch in coadapt.epochs(6):
    total, seen = 0.0, 0
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(a)
        seen += len(a)
    lengths.append(len(loader))
    coadapt.report(loss=total / seen, length=len(loader))
    if epoch in (1, 3):
        sampler.batch_size *= 2
save(model, lengths=lengths, last=sampler.batch_size)
