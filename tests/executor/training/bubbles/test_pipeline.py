"""Bubbles of PyTorch's own 1F1B schedule."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from coadapt.executor.training.bubbles.gate import Gate
from coadapt.executor.training.bubbles.pipeline import lend
from torch import nn

ITERATIONS = 12
STAGE = """
import json, sys, time
from pathlib import Path
import coadapt, torch
import torch.distributed as dist
from coadapt.executor.training.bubbles import gate
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

gate.FOLDER = folder = Path(sys.argv[1])
torch.manual_seed(0)
dist.init_process_group("gloo")
rank = dist.get_rank()

class Slow(nn.Linear):
    def forward(self, x):
        time.sleep(0.005)  # as long as a pass runs
        return super().forward(x)

module = Slow(4, 4)
stage = PipelineStage(module, rank, 2, torch.device("cpu"))
schedule = Schedule1F1B(stage, 3, loss_fn=lambda found, wanted: (found - wanted).square().sum())
owner = coadapt.lend_bubbles(schedule, f"gpu-{rank}", 2.0)
optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
for _ in range(int(sys.argv[2])):
    optimizer.zero_grad()
    schedule.step(torch.ones(3, 4)) if rank == 0 else schedule.step(target=torch.ones(3, 4))
    optimizer.step()
(folder / f"{rank}.json").write_text(json.dumps([owner.lent_s, module.weight.tolist()]))
dist.barrier()
"""


def run(folder: Path) -> list[tuple[float, list[list[float]]]]:
    """Train a pipeline of two processes; return how long each lent, and its weights."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    words = [sys.executable, "-c", STAGE, str(folder), str(ITERATIONS)]
    started = [
        subprocess.Popen(words, env={**env, "RANK": str(rank)}, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for process in started:
        _, told = process.communicate(timeout=240)
        assert process.returncode == 0, told
    return [tuple(json.loads((folder / f"{rank}.json").read_text())) for rank in range(2)]


def test_stages_lend_what_they_wait_and_train_as_without_it(tmp_path: Path) -> None:
    for rank in range(2):  # a guest that never wants the GPU
        Gate(f"gpu-{rank}", tmp_path)._enter(2, "guest")
    lent = run(tmp_path)
    assert all(lent_s > 0 for lent_s, _ in lent)
    layers = []
    for _ in range(2):
        torch.manual_seed(0)
        layers.append(nn.Linear(4, 4))
    whole = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.01)
    for _ in range(ITERATIONS):
        optimizer.zero_grad()
        ((whole(torch.ones(3, 4)) - 1).square().sum() / 3).backward()  # a mean over its micro-batches
        optimizer.step()
    for layer, (_, weights) in zip(layers, lent, strict=True):
        assert torch.allclose(layer.weight, torch.tensor(weights), atol=1e-5)


def test_what_is_no_schedule_is_refused() -> None:
    with pytest.raises(TypeError, match=r"lend_bubbles: dict is no schedule of torch\.distributed\.pipelining"):
        lend({}, "gpu")
