"""What the session costs: one training step of the same script with plain DDP and with Coadapt.

`python -m benchmarks.session_overhead` runs them by turns with 1 and 2 workers, by gloo on CPU. A machine's speed
drifts by more than the session costs. So a run is compared only with its neighbour, in changing order. The figure
is the median of these ratios of median step times. The noise scale is measured, and control points, heartbeats and
reports are on. With one worker the script also runs without DDP, since DDP reduces its gradients there too and
Coadapt does not.
Figures: `overhead_1_worker`, `overhead_2_workers` (fractions of the plain DDP step; wanted: at most 0.03), and
`overhead_1_worker_without_ddp`.
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

from coadapt.core.training_config import CheckpointConfig, TrainingConfig
from coadapt.executor.rehearsal.group import TrainingGroup

from .harness import finish, table

# All kinds keep freed memory. Else the rest of the heap decides whether glibc hands back a gradient's pages
# between two steps. That changes a fifth of this step's time.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**30)}

SCRIPT = """
import json, os, sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

out, kind, steps, batch_size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(64 * 64, 256), nn.ReLU(), nn.Linear(256, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
data = TensorDataset(torch.randn(batch_size * steps, 3, 32, 32), torch.randint(10, (batch_size * steps,)))
if kind == "coadapt":
    import coadapt
    loader = DataLoader(data, batch_size, shuffle=True, drop_last=True)
    model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
    epochs = coadapt.epochs(1)
elif kind == "ddp":
    world = int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
    loader = DataLoader(data, batch_size // world, sampler=DistributedSampler(data), drop_last=True)
    epochs = range(1)
else:
    loader = DataLoader(data, batch_size, shuffle=True, drop_last=True)
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
if kind == "ddp":
    dist.barrier()
    os._exit(0)  # taking gloo down at exit sometimes aborts the process
"""


def torchrun(kind: str, script: Path, folder: Path, workers: int, arguments: list[str]) -> list[float]:
    out = folder / "times.json"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
    ended = subprocess.run(
        [*command, str(script), str(out), kind, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if ended.returncode != 0:
        raise RuntimeError(f"torchrun of the {kind} script ended with {ended.returncode}:\n{ended.stdout}")
    return json.loads(out.read_text())


def coadapt(script: Path, folder: Path, workers: int, arguments: list[str]) -> list[float]:
    out = folder / "times.json"
    training = TrainingConfig(checkpoint=CheckpointConfig(at_epoch_end=False))
    with TrainingGroup(script, folder, training, checkpoints=False, args=[str(out), "coadapt", *arguments]) as job:
        job.join(job.start(workers))
        job.finish()
    return json.loads(out.read_text())


def step_s(kind: str, folder: Path, workers: int, steps: int, warm_up: int) -> float:
    """Return median step time of one run of `kind`."""
    script = folder / "train.py"
    script.write_text(SCRIPT)
    arguments = [str(steps), str(16 * workers)]
    if kind == "coadapt":
        times = coadapt(script, folder, workers, arguments)
    else:
        times = torchrun(kind, script, folder, workers, arguments)
    return statistics.median(times[warm_up:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--warm-up", type=int, default=50)
    options = parser.parse_args()
    os.environ.update(KEEP_MEMORY, OMP_NUM_THREADS="1")
    figures: dict[str, float] = {}
    rows = []
    for workers, peer, name in (
        (1, "ddp", "overhead_1_worker"),
        (1, "without DDP", "overhead_1_worker_without_ddp"),
        (2, "ddp", "overhead_2_workers"),
    ):
        times: dict[str, list[float]] = {peer: [], "coadapt": []}
        for repeat in range(options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                for kind in (peer, "coadapt") if repeat % 2 else ("coadapt", peer):
                    times[kind].append(step_s(kind, Path(folder), workers, options.steps, options.warm_up))
        ratios = sorted(ours / base - 1 for ours, base in zip(times["coadapt"], times[peer], strict=True))
        figures[name] = round(statistics.median(ratios), 4)
        quartiles = statistics.quantiles(ratios, n=4)
        rows.append([
            workers, peer, 1e3 * statistics.median(times[peer]), 1e3 * statistics.median(times["coadapt"]),
            100 * figures[name], f"{100 * quartiles[0]:.1f} .. {100 * quartiles[2]:.1f}",
            100 * (max(times[peer]) / min(times[peer]) - 1),
        ])  # fmt: skip
    columns = [
        "workers",
        "peer",
        "peer [ms]",
        "coadapt [ms]",
        "overhead [%]",
        "quartiles [%]",
        "peer, run to run [%]",
    ]
    table("Step time of the same script", columns, rows)
    finish("session_overhead", figures)


if __name__ == "__main__":
    main()
