"""What a Coadapt user writes for a sharded model: two lines more than for one that is not."""

from __future__ import annotations

import sys
from pathlib import Path

import coadapt
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).parent))
from resize_step import BATCH, StepLog, build, train_step

model, optimizer, data = build(lambda model: fully_shard(model, mesh=coadapt.shard_mesh()))
loader = DataLoader(data, 2 * BATCH, shuffle=True)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
log = StepLog(sys.argv[1])
for _ in coadapt.epochs(1_000_000):
    for inputs, labels in loader:
        train_step(model, optimizer, inputs, labels)
        log.step(coadapt.rank(), coadapt.world_size())
