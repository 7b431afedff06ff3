"""Trains trials of a small model in epochs; `--out` and `--samples` are those of all test scripts."""

from __future__ import annotations

import sys
import time

import coadapt
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

hp = coadapt.hyperparameters(lr=0.1)
torch.manual_seed(0)
samples = int(sys.argv[sys.argv.index("--samples") + 1])
inputs = torch.randn(samples, 4)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=hp.lr)
loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), 16, shuffle=True)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for _ in coadapt.epochs(8):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
        time.sleep(0.02)  # so that what is asked for comes while it trains
    coadapt.report(loss=total)
