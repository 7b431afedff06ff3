"""What a torchrun user writes for a sharded model: FSDP2, a distributed checkpoint every 20 steps, restore."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

sys.path.insert(0, str(Path(__file__).parent))
from resize_step import StepLog, batches, build, train_step

folder = Path(sys.argv[1])
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world,))
model, optimizer, data = build(lambda model: fully_shard(model, mesh=mesh))
newest, step = folder / "newest", 0
if newest.exists():
    step = int(newest.read_text())
    of_model, of_optimizer = get_state_dict(model, optimizer)
    state = {"model": of_model, "optimizer": of_optimizer}
    dcp.load(state, checkpoint_id=folder / f"step-{step}")
    set_state_dict(model, optimizer, model_state_dict=of_model, optim_state_dict=of_optimizer)
log = StepLog(str(folder))
for inputs, labels in batches(data, torch.Generator().manual_seed(rank)):
    train_step(model, optimizer, inputs, labels)
    step += 1
    log.step(rank, world)
    if step % 20 == 0:
        of_model, of_optimizer = get_state_dict(model, optimizer)
        dcp.save({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=folder / f"step-{step}")
        if rank == 0:
            (folder / "new").write_text(str(step))
            os.replace(folder / "new", newest)
