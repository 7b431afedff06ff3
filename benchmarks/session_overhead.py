"""What the session costs: one training step of the same script with plain DDP and with Coadapt.

`python -m benchmarks.session_overhead` runs both by turns, gloo on CPU, 1 and 2 workers, and compares the medians
of their step times. The noise scale is measured, control points, heartbeats and reports are on.
Figures: `overhead_1_worker`, `overhead_2_workers` (fractions of the plain step; wanted: at most 0.03).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from coadapt.executor.config import CheckpointConfig, TrainingConfig

from tests.training_group import TrainingGroup

from .harness import finish, table

SCRIPT = """
import json, os, sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

out, ours, steps, batch_size = sys.argv[1], sys.argv[2] == "coadapt", int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(64 * 64, 256), nn.ReLU(), nn.Linear(256, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
data = TensorDataset(torch.randn(batch_size * steps, 3, 32, 32), torch.randint(10, (batch_size * steps,)))
if ours:
    import coadapt
    loader = DataLoader(data, batch_size, shuffle=True, drop_last=True)
    model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
    epochs = coadapt.epochs(1)
else:
    world = int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
    loader = DataLoader(data, batch_size // world, sampler=DistributedSampler(data), drop_last=True)
    epochs = range(1)
times = []
for epoch in epochs:
    last = None
    for x, y in loader:
        now = time.perf_counter()
        if last is not None:
            times.append(now - last)
        last = now
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if os.environ["RANK"] == "0":
    json.dump(times, open(out, "w"))
if not ours:
    dist.destroy_process_group()
"""


def plain(script: Path, folder: Path, workers: int, arguments: list[str]) -> list[float]:
    out = folder / "plain.json"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*command, str(script), str(out), "plain", *arguments], check=True, env=env, capture_output=True
    )
    return json.loads(out.read_text())


def ours(script: Path, folder: Path, workers: int, arguments: list[str]) -> list[float]:
    out = folder / "coadapt.json"
    training = TrainingConfig(checkpoint=CheckpointConfig(at_epoch_end=False))
    with TrainingGroup(script, folder, training, checkpoints=False, args=[str(out), "coadapt", *arguments]) as job:
        job.join(job.start(workers))
        job.finish()
    return json.loads(out.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--warm-up", type=int, default=20)
    options = parser.parse_args()
    figures: dict[str, float] = {}
    rows = []
    for workers in (1, 2):
        arguments = [str(options.steps), str(16 * workers)]
        times: dict[str, list[float]] = {"plain": [], "coadapt": []}
        with tempfile.TemporaryDirectory() as name:
            script = Path(name) / "train.py"
            script.write_text(SCRIPT)
            for _ in range(options.repeats):
                for kind, measure in (("plain", plain), ("coadapt", ours)):
                    times[kind].append(
                        statistics.median(measure(script, Path(name), workers, arguments)[options.warm_up :])
                    )
        base, with_session = statistics.median(times["plain"]), statistics.median(times["coadapt"])
        overhead = with_session / base - 1
        figures[f"overhead_{workers}_worker" + "s" * (workers > 1)] = round(overhead, 4)
        spread = max(times["plain"]) / min(times["plain"]) - 1
        rows.append([workers, base * 1e3, with_session * 1e3, 100 * overhead, 100 * spread])
    columns = ["workers", "plain DDP [ms]", "coadapt [ms]", "overhead [%]", "plain run to run [%]"]
    table("Step time of the same script", columns, rows)
    finish("session_overhead", figures)


if __name__ == "__main__":
    main()
