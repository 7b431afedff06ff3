"""Training of a sharded model, whose replicas come and go, against the same model unsharded; and its pauses.

    python -m benchmarks.sharded

A small transformer is sharded by FSDP2 over the processes of a replica. Part one trains it with two processes and
one to three replicas, over warm resizes, and changes the number of processes. Part two loses a process.
Parameters must be those of the plain script without shards, and each sample of each epoch must be trained on
exactly once. Part three compares the noise of sharded gradients with that of whole ones, on the same samples.
Part four measures pauses as `resize_pause` does, with two processes of a replica: warm, cold and after SIGKILL.
`torchrun_s` is torchrun's restart of FSDP2 training from a distributed checkpoint, after the same SIGKILL.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from coadapt.core.reports import Report
from coadapt.core.training_config import CheckpointConfig, TrainingConfig
from coadapt.executor.protocol.messages import Broken, Joined
from coadapt.executor.rehearsal.group import Member

from tests.support.sharded_runs import SCRIPT, ShardedGroup, run_plain

from .arguments import at_least
from .harness import finish, table
from .resize_pause import our_pauses
from .resize_peers import torchrun_pauses

SAMPLES, EPOCHS, STEPS = 96, 8, 6  # steps between two resizes
TRAINING = TrainingConfig(report_interval_s=0.05, checkpoint=CheckpointConfig(at_epoch_end=False))
OURS_S, TORCHRUN_S = 100.0, 60.0


def job(folder: Path, *args: str) -> ShardedGroup:
    return ShardedGroup(SCRIPT, folder, TRAINING, args=[f"--out={folder}", *args])


def train(training: ShardedGroup, replicas: Sequence[Sequence[Member]]) -> None:
    """Let these replicas be the group until it has made some steps."""
    generation = training.join_replicas(replicas)
    first = replicas[0][0]
    first.reached(first.wait(Joined, lambda event: event.generation == generation).steps + STEPS)


def resized(folder: Path, args: Sequence[str]) -> None:
    """Train over five warm resizes and two changes of the number of processes."""
    with job(folder, *args, "--pause=0.005") as training:
        a, b, c = (training.start_replica() for _ in range(3))
        for group in ([a], [a, b], [a, b, c], [b, c], [c]):
            train(training, group)
        d = training.start_replica()
        train(training, [d, c])  # a newcomer is replica 0
        training.stop()
        three = training.start_replica(3)
        train(training, [three])
        training.stop()
        training.join_replicas([training.start_replica(2)])
        training.finish()


def with_a_loss(folder: Path, args: Sequence[str]) -> None:
    """Lose a process of one of three replicas, and the first replica later."""
    with job(folder, *args, "--pause=0.005") as training:
        a, b, c = (training.start_replica() for _ in range(3))
        train(training, [a, b, c])
        for victim, left in ((b, [a, c]), (a, [c])):
            generation = training.generation
            victim[1].kill()
            for replica in left:
                for member in replica:
                    member.wait(Broken, lambda event, of=generation: event.generation == of)
            victim[0].kill()
            train(training, left)
        training.finish()


def against_plain(optimizer: str) -> list[list[object]]:
    args = [f"--epochs={EPOCHS}", f"--samples={SAMPLES}", f"--optimizer={optimizer}"]
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as name:
        plain = run_plain(Path(name) / "plain", *args)
        for what in ("resized", "lost"):
            folder = Path(name) / what
            folder.mkdir()
            if what == "resized":
                resized(folder, args)
            else:
                with_a_loss(folder, args)
            ours = torch.load(folder / "final.pt")
            difference = max(float((ours[key] - plain[key]).abs().max()) for key in plain)
            seen = handed_out(folder)
            again = sum(count - 1 for count in seen.values())
            rows.append([f"{optimizer}, {what}", difference, again, EPOCHS * SAMPLES - len(seen)])
    return rows


def handed_out(folder: Path) -> Counter[tuple[str, str]]:
    """Count how often each (epoch, sample) was handed to the script; an undone batch is handed out again."""
    counts: Counter[tuple[str, str]] = Counter()
    for file in folder.glob("seen-*.txt"):
        for line in file.read_text().splitlines():
            epoch, *samples = line.split()
            counts.update((epoch, sample) for sample in samples)
    return counts


def noise_error(optimizer: str, replicas: int) -> float:
    """Return by how much the noise scale of sharded gradients differs from that of whole ones."""
    scales = []
    for sharded in (False, True):
        args = [f"--epochs={EPOCHS}", f"--optimizer={optimizer}", "--lr=0.01", *([] if sharded else ["--whole"])]
        with tempfile.TemporaryDirectory() as name, job(Path(name), *args) as training:
            several = [training.start_replica() if sharded else training.start() for _ in range(replicas)]
            training.join_replicas(several)
            training.finish()
            report = several[0][0].all(Report)[-1]
            assert report.grad_sqr is not None
            assert report.grad_var is not None
            scales.append(report.grad_var / report.grad_sqr)
    return abs(scales[1] / scales[0] - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=at_least(1), default=8, help="pauses of each kind, at most")
    parser.add_argument("--no-pauses", action="store_true", help="leave out what needs Ray and torchrun")
    options = parser.parse_args()
    rows = [row for optimizer in ("sgd", "adam") for row in against_plain(optimizer)]
    table(
        "Two processes of a replica, one to three replicas, against the script without shards",
        ["", "largest difference of a parameter", "samples handed out again", "skipped"],
        rows,
    )
    errors = [[kind, replicas, noise_error(kind, replicas)] for kind in ("sgd", "adam") for replicas in (1, 2, 3)]
    table("Noise scale of sharded gradients", ["optimizer", "replicas", "relative error"], errors)
    pauses: dict[str, list[float]] = {}
    if not options.no_pauses:
        pauses |= our_pauses(options.count, OURS_S, "resize_sharded.py", processes=2)
        pauses["torchrun_s"] = torchrun_pauses(options.count, TORCHRUN_S, "resize_torchrun_sharded.py")
    medians = {name: statistics.median(values) if values else None for name, values in pauses.items()}
    table(
        "Pauses of training, seconds",
        ["", "median", "smallest", "largest", "count"],
        [
            [name, medians[name] or "-", *((min(values), max(values)) if values else ("-", "-")), len(values)]
            for name, values in pauses.items()
        ],
    )
    finish(
        "sharded",
        {
            "max_abs_param_diff": max(float(str(row[1])) for row in rows),
            "samples_repeated": sum(int(str(row[2])) for row in rows if "resized" in str(row[0])),
            "samples_skipped": sum(int(str(row[3])) for row in rows),
            "noise_rel_err": max(float(str(row[2])) for row in errors),
            **medians,
        },
    )


if __name__ == "__main__":
    main()
