"""Train a sharded model in the style of torchtitan: FSDP2, and checkpoints by torch.distributed.checkpoint."""

import argparse
import os
import signal
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class TrainState(Stateful):
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.step = model, optimizer, 0

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "step": self.step}

    def load_state_dict(self, state):
        set_state_dict(
            self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
        self.step = state["step"]


def newest(folder):
    done = [name for name in os.listdir(folder) if os.path.exists(f"{folder}/{name}/.metadata")]
    return max(done, key=lambda name: int(name.removeprefix("step-")), default=None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="checkpoint")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--interval", type=int, default=10)
    args = parser.parse_args()
    asked = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    os.makedirs(args.folder, exist_ok=True)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    state = TrainState(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    if name := newest(args.folder):
        dcp.load({"train": state}, checkpoint_id=f"{args.folder}/{name}")
        print(f"[rank {rank}] resumed {name} with {world} ranks", flush=True)
    while state.step < args.steps:
        time.sleep(0.15)  # its data comes from slow storage
        x = torch.randn(16, 16, generator=torch.Generator().manual_seed(state.step))[rank::world]
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        state.optimizer.zero_grad()
        loss.backward()
        state.optimizer.step()
        state.step += 1
        both = torch.tensor([loss.item() / world, float(bool(asked))])
        dist.all_reduce(both)
        if rank == 0:
            print(f"step: {state.step:3d}  loss: {both[0]:8.5f}", flush=True)
        if both[1] > 0 or state.step % args.interval == 0:
            dcp.save({"train": state}, checkpoint_id=f"{args.folder}/step-{state.step}")
        if both[1] > 0:
            break
    if rank == 0 and state.step == args.steps:
        print(f"final loss {both[0].item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
