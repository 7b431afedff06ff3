"""Train with one process per GPU, which this program starts by itself."""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def train(rank, world, port, losses):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(32, 4)[rank::world]
    for step in range(20):
        loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    losses[rank] = loss.item()
    dist.destroy_process_group()


if __name__ == "__main__":
    found = mp.get_context("spawn").Array("d", 2)
    mp.spawn(train, (2, free_port(), found), nprocs=2)
    print(f"final loss {sum(found) / 2:.6f}")
