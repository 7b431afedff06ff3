"""Train on all ranks, log steps as lines of JSON, save every ten steps and on SIGTERM, and go on from there."""

import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 60, 16
saved = os.path.join(sys.argv[1], "checkpoint.pt")
asked = []
signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
step = 0
if os.path.exists(saved):
    state = torch.load(saved)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
parallel = DistributedDataParallel(model)
while step < STEPS:
    time.sleep(0.15)
    x = torch.randn(BATCH, 8, generator=torch.Generator().manual_seed(step))[rank::world]
    loss = torch.nn.functional.mse_loss(parallel(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    told = torch.tensor([loss.item() / world, float(bool(asked))])
    dist.all_reduce(told)
    stop = told[1] > 0
    if rank == 0:
        print(f"step {step}", flush=True)
        with open("log.jsonl", "a") as file:
            file.write(json.dumps({"step": step, "steps": STEPS, "loss": told[0].item()}) + "\n")
        if stop or step % 10 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, saved + ".new")
            os.replace(saved + ".new", saved)
    if stop:
        break
if rank == 0 and step == STEPS:
    print(f"final loss {told[0].item():.6f}", flush=True)
dist.destroy_process_group()
