# kind: 3 a bar around the loader, as tqdm's, that is told the running loss
import sys

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class tqdm:
    def __init__(self, iterable, desc=""):
        self.iterable, self.desc, self.n, self.total = iterable, desc, 0, len(iterable)

    def __iter__(self):
        for item in self.iterable:
            yield item
            self.n += 1
            sys.stderr.write(f"\r{self.desc} {self.n}/{self.total}")

    def set_postfix(self, **values):
        sys.stderr.write(f" {values}")


def run_epoch(model, loader, optimizer, epoch):
    bar = tqdm(loader, desc=f"epoch {epoch}")
    running_loss = 0.0
    for i, (a, b) in enumerate(bar):
        saw(a, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
        bar.set_postfix(loss=running_loss / (i + 1))
    return running_loss / (i + 1), bar.n


torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    loss, batches = run_epoch(model, loader, optimizer, epoch)
    coadapt.report(loss=loss)
save(model)
