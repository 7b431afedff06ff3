"""The training that the resize benchmark interrupts: one model, one step, one log of step times.

Every contestant (Coadapt, torchrun, Ray Train) trains exactly this, so that only the interruption differs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

BATCH = 32


def build(
    shard: Callable[[nn.Module], object] = lambda model: model,
) -> tuple[nn.Module, torch.optim.Optimizer, TensorDataset]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    shard(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(8192, 256), torch.randint(0, 10, (8192,)))
    return model, optimizer, data


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, labels: torch.Tensor
) -> float:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


class StepLog:
    """Appends "time rank world pid" after every step; one file per process, read by `steps`."""

    def __init__(self, folder: str) -> None:
        self._file = (Path(folder) / f"{os.getpid()}.steps").open("a", buffering=1)

    def step(self, rank: int, world: int) -> None:
        self._file.write(f"{time.time():.6f} {rank} {world} {os.getpid()}\n")


def steps(folder: str | Path) -> list[tuple[float, int, int, int]]:
    """Return (time, rank, world size, pid) of every step of every process so far, by time."""
    found = []
    for path in Path(folder).glob("*.steps"):
        for line in path.read_text().splitlines():
            parts = line.split()
            if len(parts) == 4:
                found.append((float(parts[0]), int(parts[1]), int(parts[2]), int(parts[3])))
    return sorted(found)


def batches(data: TensorDataset, generator: torch.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    while True:
        index = torch.randint(0, len(data), (BATCH,), generator=generator)
        yield data.tensors[0][index], data.tensors[1][index]
