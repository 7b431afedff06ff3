# kind: 8 batches of both loaders taken by next(), the second one a StatefulDataLoader that begins anew at its end
# leave out: repeats of all: who comes in later runs the loop on one batch, for nothing, to where the others are
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader


class Endless:
    def __init__(self, loader):
        self.loader, self.items = loader, None

    def next(self):
        try:
            return next(self.items)
        except (TypeError, StopIteration):
            self.items = iter(self.loader)
            return next(self.items)


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(96, 4)), batch_size=16)
second = Endless(StatefulDataLoader(TensorDataset(torch.randn(160, 4)), batch_size=16))
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader, loss="mean")
for epoch in coadapt.epochs(6):
    batches = iter(loader)
    for _ in range(len(loader)):
        (a,) = next(batches)
        (b,) = second.next()
        saw(a, epoch)
        optimizer.zero_grad()
        loss = (model(a) - a).square().mean() + model(b).abs().mean()
        loss.backward()
        optimizer.step()
save(model)
