"""What a torchrun user writes: DDP, a checkpoint every 20 steps, restore at the start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parent))
from resize_step import StepLog, batches, build, train_step

folder = sys.argv[1]
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
bare, optimizer, data = build()
path, step = Path(folder) / "checkpoint.pt", 0
if path.exists():
    state = torch.load(path, weights_only=True)
    bare.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
model = DistributedDataParallel(bare)
log = StepLog(folder)
for inputs, labels in batches(data, torch.Generator().manual_seed(rank)):
    train_step(model, optimizer, inputs, labels)
    step += 1
    log.step(rank, world)
    if step % 20 == 0 and rank == 0:
        torch.save({"model": bare.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f"{path}.new")
        os.replace(f"{path}.new", path)
