# kind: 9 a batch sampler that takes as many of each class, begins elsewhere in each epoch, and repeats
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import BatchSampler, ConcatDataset, DataLoader, StackDataset


class Stratified(BatchSampler):
    def __init__(self, labels, per_class):
        self.by_class = [[i for i, label in enumerate(labels) if label == c] for c in sorted(set(labels))]
        self.per_class, self.epoch = per_class, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return -(-max(map(len, self.by_class)) // self.per_class)

    def __iter__(self):
        for batch in range(len(self)):
            begin = batch * self.per_class + 5 * self.epoch
            yield [own[(begin + i) % len(own)] for own in self.by_class for i in range(self.per_class)]


torch.manual_seed(0)
x = torch.randn(100, 6)
y = (x[:, 0] > 0.5).long() + (x[:, 1] > 0.5).long()
parts = [StackDataset(x=x[s], y=y[s], i=range(100)[s]) for s in (slice(0, 30), slice(30, 100))]
train_set = ConcatDataset(parts)
sampler = Stratified(y.tolist(), 6)
loader = DataLoader(train_set, batch_sampler=sampler)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    loader.batch_sampler.set_epoch(epoch)
    correct = seen = 0
    for batch in loader:
        saw(batch["i"], epoch)
        optimizer.zero_grad()
        out = model(batch["x"])
        loss = nn.functional.cross_entropy(out, batch["y"], weight=torch.tensor([1.0, 2.0, 3.0]))
        loss.backward()
        optimizer.step()
        correct += (out.argmax(1) == batch["y"]).sum().item()
        seen += batch["y"].numel()
    coadapt.report(accuracy=correct / seen, seen=seen)
save(model)
