"""Training that is resized and moved, against plain PyTorch; the noise scale, against its closed form.

    python -m benchmarks.equivalence

Part one trains with a fixed batch size, and is resized and moved between processes, warm and cold. Each sample of
each epoch must be trained on exactly once. The parameters must be those of an uninterrupted plain DDP run. Part
two sends gradients of a quadratic loss, whose noise scale is known, through the real communication hook. A float64
reference checks them.
Figures: `max_abs_param_diff`, `samples_repeated`, `samples_skipped`, `pgns_rel_err`, `adascale_rel_err`.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

import torch
from coadapt.core.batch_plan import BatchPlan
from coadapt.core.training_config import CheckpointConfig, TrainingConfig
from coadapt.executor.rehearsal.group import Member, TrainingGroup

from tests.support.elastic_runs import SCRIPT, run_script

from .harness import finish, table

EPOCHS, SAMPLES = 14, 102  # a multiple of 2: DistributedSampler repeats a sample otherwise
TRAINING = TrainingConfig(report_interval_s=0.05, checkpoint=CheckpointConfig(at_epoch_end=False))


def resized(folder: Path, batch_size: int, optimizer: str) -> tuple[dict[str, torch.Tensor], int, int]:
    """Return parameters after five warm resizes, a warm and two cold moves; samples repeated and skipped."""
    args = [
        f"--out={folder}",
        f"--epochs={EPOCHS}",
        f"--samples={SAMPLES}",
        f"--batch-size={batch_size}",
        f"--optimizer={optimizer}",
    ]
    with TrainingGroup(SCRIPT, folder, TRAINING, args=[*args, "--pause=0.005", "--schedule=step"]) as job:
        a, b, c = job.start(3)

        def train(members: list[Member], plan: BatchPlan | None = None) -> None:
            job.join(members, plan)
            steps = (
                members[0].wait(object, lambda event: getattr(event, "generation", 0) == job.generation).steps + 7
            )
            members[0].reached(steps)

        train([a])
        train([a, b])
        train([a, b, c])  # 16 or 19 samples on three replicas
        train([b, c])  # rank 0 leaves
        train([c], BatchPlan(5, 3, batch_size))  # and four passes
        job.stop()
        d, e = job.start(2)
        train([d, e])  # moved, cold
        job.stop()
        f, g = job.start(2)
        train([f])  # moved again
        job.join([g, f])  # grown, the newcomer being rank 0
        job.finish()
    counts: Counter[tuple[str, str]] = Counter()
    for file in folder.glob("seen-*.txt"):
        for line in file.read_text().splitlines():
            epoch, *samples = line.split()
            counts.update((epoch, sample) for sample in samples)
    repeated = sum(count - 1 for count in counts.values())
    return torch.load(folder / "final.pt")["model"], repeated, EPOCHS * SAMPLES - len(counts)


def against_plain(batch_size: int, optimizer: str, processes: int) -> list[object]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        args = [f"--epochs={EPOCHS}", f"--samples={SAMPLES}", f"--batch-size={batch_size}", "--schedule=step"]
        args += [f"--optimizer={optimizer}"]
        plain = run_script(folder / "plain", *args, "--plain", processes=processes)["model"]
        ours, repeated, skipped = resized(folder, batch_size, optimizer)
        assert isinstance(plain, dict)
        difference = max(float((ours[key] - plain[key]).abs().max()) for key in plain)
    return [f"{optimizer}, batch {batch_size}", max(processes, 1), difference, repeated, skipped]


# Samples are x_i ~ N(mu, sigma^2 I) in DIM dimensions, and the loss is |w - x|^2 / 2 at a learning rate of 0. So
# the gradient's square is |w - mu|^2 and its noise DIM sigma^2. For Adam both are divided elementwise by E[g^2].
QUADRATIC = """
import json, sys, torch, coadapt
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

out, kind, batch_size, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
DIM, SIGMA = 400, 3.0
generator = torch.Generator().manual_seed(5)
mu = torch.linspace(0.2, 1.8, DIM)
data = mu + SIGMA * torch.randn(batch_size * steps, DIM, generator=generator)

class Distance(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(DIM))
    def forward(self, x):
        return (self.w - x).square().sum(1).mean() / 2

model = Distance()
make = torch.optim.SGD if kind == "sgd" else torch.optim.Adam
optimizer = make(model.parameters(), 0.0)
loader = DataLoader(TensorDataset(data), batch_size, shuffle=True)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(1):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).backward()
        optimizer.step()
if coadapt.is_main():
    # Adam divides by the root of E[g^2] = mu^2 + sigma^2 / B of each dimension.
    second = mu.double().square() + SIGMA**2 / batch_size
    scale = second.rsqrt() if kind == "adam" else torch.ones(DIM, dtype=torch.float64)
    from coadapt.executor.training import api
    noise = api.current().noise
    json.dump({"sqr": noise.sqr, "var": noise.var, "gain": noise.gain(4 * batch_size, batch_size),
               "true_sqr": float((mu.double() * scale).square().sum()),
               "true_var": float((SIGMA * scale).square().sum())}, open(out, "w"))
"""


def quadratic(kind: str, replicas: int, passes: int) -> list[object]:
    """Return noise scale and AdaScale's gain at four times the batch size, and their relative errors."""
    batch_size, steps = 24, 1500
    with tempfile.TemporaryDirectory() as name:
        folder, script = Path(name), Path(name) / "train.py"
        script.write_text(QUADRATIC)
        out = folder / "noise.json"
        args = [str(out), kind, str(batch_size), str(steps)]
        with TrainingGroup(script, folder, TRAINING, checkpoints=False, args=args) as job:
            job.join(job.start(replicas), BatchPlan(batch_size // replicas // passes, passes - 1))
            job.finish()
        found = json.loads(out.read_text())
    true = found["true_var"] / found["true_sqr"]
    measured = found["var"] / found["sqr"]
    gain = (true / batch_size + 1) / (true / (4 * batch_size) + 1)
    errors = [abs(measured / true - 1), abs(found["gain"] / gain - 1)]
    return [f"{kind}, {replicas} x {passes} passes", true, measured, gain, found["gain"], *errors]


def main() -> None:
    runs = [against_plain(16, "sgd", 2), against_plain(19, "sgd", 0), against_plain(16, "adam", 0)]
    columns = ["job", "plain processes", "max |parameter difference|", "repeated", "skipped"]
    table("Resized and moved, against uninterrupted plain PyTorch", columns, runs)
    layouts = [(1, 1), (1, 3), (2, 1), (2, 2)]
    noises = [quadratic(kind, replicas, passes) for kind in ("sgd", "adam") for replicas, passes in layouts]
    columns = ["gradients", "noise scale", "measured", "AdaScale gain", "measured", "error", "error of gain"]
    table("Quadratic loss, against the closed form", columns, noises)
    finish(
        "equivalence",
        {
            "max_abs_param_diff": max(float(str(run[2])) for run in runs),
            "samples_repeated": sum(int(str(run[3])) for run in runs),
            "samples_skipped": sum(int(str(run[4])) for run in runs),
            "pgns_rel_err": round(max(float(str(noise[5])) for noise in noises), 4),
            "adascale_rel_err": round(max(float(str(noise[6])) for noise in noises), 4),
        },
    )


if __name__ == "__main__":
    main()
