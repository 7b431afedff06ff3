# kind: 4 the next batch is taken before there is a backward of the last one
# expect: refused all: what is trained on between two batches would not be known, and the guide says so
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Prefetcher:
    """Moves a batch to the device while the one before is trained on."""

    def __init__(self, loader):
        self.batches = iter(loader)
        self.ahead = next(self.batches, None)

    def next(self):
        batch, self.ahead = self.ahead, next(self.batches, None)
        return batch


torch.manual_seed(0)
x = torch.randn(128, 4)
y = x @ torch.randn(4, 1)
model = nn.Linear(4, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    ahead = Prefetcher(loader)
    while (batch := ahead.next()) is not None:
        a, b = batch
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
save(model)
