"""One stage of a pipeline by PyTorch's 1F1B on an emulated GPU: `RANK` and `WORLD_SIZE` say which.

    python bubble_owner.py FOLDER ITERATIONS MICRO_BATCHES FORWARD_MS BACKWARD_MS LENDS BESIDE FREE_GIB

It leaves FOLDER/owner-RANK.json: the seconds of its iterations, when its kernels ran, and what it lent.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import coadapt
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from benchmarks.scripts.paced_kernels import PacedKernels

WIDTH = 8


class PacedStage(nn.Module):
    """A layer whose passes take the time of a large one's."""

    def __init__(self, kernels: PacedKernels, forward_s: float, backward_s: float) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self._kernels, self._forward_s, self._backward_s = kernels, forward_s, backward_s

    def forward(self, x: Tensor) -> Tensor:
        self._kernels.run(self._forward_s)
        found: Tensor = self.layer(x)
        if found.grad_fn is not None:
            found.grad_fn.register_prehook(lambda _: self._kernels.run(self._backward_s))
        return found


def main() -> None:
    folder, iterations, micro_batches = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    forward_s, backward_s = float(sys.argv[4]) / 1000, float(sys.argv[5]) / 1000
    lends, beside, free_gib = sys.argv[6] == "lends", float(sys.argv[7]), float(sys.argv[8])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    kernels = PacedKernels(folder / f"gpu-{rank}", 0, beside)
    module = PacedStage(kernels, forward_s, backward_s)
    stage = PipelineStage(module, rank, world, torch.device("cpu"))
    schedule = Schedule1F1B(stage, micro_batches, loss_fn=lambda found, wanted: (found - wanted).square().mean())
    owner = coadapt.lend_bubbles(schedule, f"{folder.name}-{rank}", free_gib) if lends else None
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    x = torch.randn(micro_batches, WIDTH)
    took_s: list[float] = []
    for _ in range(iterations):
        began_s = time.monotonic()
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(x)
        elif rank == world - 1:
            schedule.step(target=x)
        else:
            schedule.step()
        optimizer.step()
        took_s.append(time.monotonic() - began_s)
        (folder / f"iterations-{rank}").write_text(str(len(took_s)))
    found = {
        "took_s": took_s,
        "runs": kernels.runs,
        "lent_s": owner.lent_s if owner else 0.0,
        "late_s": owner.late_s if owner else 0.0,
    }
    (folder / f"owner-{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    os._exit(0)  # a guest may still hold the page


if __name__ == "__main__":
    main()
