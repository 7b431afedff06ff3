"""What a Coadapt user writes: the same training without a thought of checkpoints or groups."""

from __future__ import annotations

import sys
from pathlib import Path

import coadapt
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).parent))
from resize_step import BATCH, StepLog, build, train_step

model, optimizer, data = build()
loader = DataLoader(data, 2 * BATCH, shuffle=True)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
log = StepLog(sys.argv[1])
for _ in coadapt.epochs(1_000_000):
    for inputs, labels in loader:
        train_step(model, optimizer, inputs, labels)
        log.step(coadapt.rank(), coadapt.world_size())
