"""Trains trials of a small model in epochs, and waits for a test: for trials to leave, and for a file `killed`.

`--out` and `--samples` are those of all test scripts.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import coadapt
import torch
from coadapt.executor.protocol.messages import Keep
from coadapt.executor.training import api
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

hp = coadapt.hyperparameters(lr=0.1)
torch.manual_seed(0)
killed = Path(sys.argv[sys.argv.index("--out") + 1]) / "killed"
samples = int(sys.argv[sys.argv.index("--samples") + 1])
inputs = torch.randn(samples, 4)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=hp.lr)
loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), 16, shuffle=True)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(8):
    if epoch == 3:  # until trials are to leave; later processes begin without them
        while api._channel is not None and Keep not in api._channel._single and not killed.exists():
            time.sleep(0.01)
    if epoch == 6:  # until it was killed
        while not killed.exists():
            time.sleep(0.01)
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    coadapt.report(loss=total)
