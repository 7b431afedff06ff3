"""Trains trials of a model with a factor of its own that grows with width; `--samples` is as everywhere."""

from __future__ import annotations

import sys

import coadapt
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.hidden, self.last = nn.Linear(4, 64), nn.Linear(64, 64), nn.Linear(64, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).relu()
        return self.last(self.hidden(h * h.shape[-1] ** 0.5).relu())


hp = coadapt.hyperparameters(lr=0.1)
torch.manual_seed(0)
inputs = torch.randn(int(sys.argv[sys.argv.index("--samples") + 1]), 4)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=hp.lr)
loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), 16, shuffle=True)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for _ in coadapt.epochs(1):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    coadapt.report(loss=loss)
