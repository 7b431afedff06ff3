"""Examples trained alone and with adapted batches: what they end with, and the samples it took.

    python -m benchmarks.end_quality [--only NAME,…] [--seeds 5] [--times 4] [--count progress]

A run alone is `python train.py --seed S`. An adapted run has two replicas of a managed group, which begin with the
script's own batch. They go on with one `--times` as large once the gradient noise is known, as a job does that
gets more GPUs. The learning rate follows by the job's own rule, and the run ends by progress. A script that makes
several steps of one batch keeps its batch. `worse by` is how far the mean over seeds is on the worse side of that
alone, in standard deviations of the runs alone. More than 1 is `worse`.
"""

from __future__ import annotations

import argparse
import os
import pickle
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from coadapt.core.batch_plan import BatchPlan
from coadapt.core.reports import Report
from coadapt.core.training_config import CheckpointConfig, Count, TrainingConfig
from coadapt.executor.protocol.messages import Finished, Ready, SetBatch
from coadapt.executor.rehearsal.group import Member, TrainingGroup

from .arguments import at_least, some_of
from .harness import finish, table
from .real.processes import Process, run_alone, run_member

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 300.0
REPLICAS = 2


@dataclass(frozen=True)
class Example:
    """`samples`: of an epoch alone, or of the whole run where that is in steps."""

    metric: str
    samples: int
    higher: bool = False

    @property
    def sign(self) -> int:
        return -1 if self.higher else 1


EXAMPLES = {
    "classifier": Example("best_accuracy", 2000, higher=True),
    "language_model": Example("val_loss", 400 * 2 * 16),
    "vae": Example("test_loss", 4000),
    "gan": Example("distance", 4096),
}


@dataclass(frozen=True)
class Run:
    """What one training ended with; `batch` is the largest that it used."""

    metric: float
    samples: int
    batch: int = 0
    gain: float = 1.0


class FastGroup(TrainingGroup):
    """Members that are forked from one process that has loaded torch."""

    def _launch(self, environment: dict[str, str], channel: socket.socket, log: Path) -> Any:
        with Connection(channel.detach()) as end:
            return Process(run_member, self.script, environment, self.folder, log, end, None, 0.0, self.args)


def alone(name: str, seed: int, folder: Path) -> Run:
    """Run `python train.py`."""
    folder.mkdir(parents=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COADAPT")}
    process = Process(run_alone, _script(name), environment, folder, ["--seed", str(seed)])
    if process.wait(LIMIT_S) != 0:
        raise RuntimeError((folder / "alone.log").read_text())
    reported = pickle.loads((folder / "reported.pickle").read_bytes())
    return Run(reported[max(reported)][EXAMPLES[name].metric], len(reported) * EXAMPLES[name].samples)


def adapted(name: str, seed: int, times: int, count: Count, folder: Path) -> Run:
    """Run a job that is given `times` its batch once its noise is known."""
    folder.mkdir(parents=True)
    training = TrainingConfig(
        max_batch_size=1 << 20,
        count=count,
        seed=seed,
        report_interval_s=0.1,
        checkpoint=CheckpointConfig(every_minutes=None, at_epoch_end=False),
    )
    with FastGroup(_script(name), folder, training, checkpoints=False, args=["--seed", str(seed)]) as job:
        members = job.start(REPLICAS)
        size = members[0].wait(Ready).initial_batch_size
        job.join(members, BatchPlan(-(-size // REPLICAS), 0, size))
        _enlarge(job, members[0], size, times)
        (*_, last) = members[0].all(Report)
        batches = [report for report in members[0].all(Report) if report.batch_size == last.batch_size]
        gain = statistics.median(report.gain for report in batches)
        metric = members[0].wait(Finished).metrics[EXAMPLES[name].metric]
        return Run(metric, last.progress.samples, last.batch_size, gain)


def _enlarge(job: TrainingGroup, leader: Member, size: int, times: int) -> None:
    """Give the job larger batches when it knows its noise and what its loop does; to the end of the script."""
    known = lambda report: report.grad_sqr is not None and report.progress.steps >= 20  # noqa: E731
    first = job.until(lambda: leader.first(Report, known) or leader.first(Finished), "noise")
    if isinstance(first, Report):
        per_step = first.habits.per_step if first.habits else 1
        leader.send(SetBatch(BatchPlan(-(-size * times // REPLICAS), 0, size * times * per_step)))
    job.until(lambda: leader.first(Finished), "end")
    job.finish()


def _script(name: str) -> Path:
    return ROOT / "examples" / name / "train.py"


def compared(name: str, runs: Sequence[Run], references: Sequence[Run]) -> dict[str, float]:
    """Return the figures of one example."""
    ours, theirs = [run.metric for run in runs], [run.metric for run in references]
    spread = statistics.stdev(theirs)
    worse = EXAMPLES[name].sign * (statistics.mean(ours) - statistics.mean(theirs))
    return {
        "alone": statistics.mean(theirs),
        "spread": spread,
        "adapted": statistics.mean(ours),
        "adapted_spread": statistics.stdev(ours),
        "worse_by": round(worse / spread, 2),
        "samples": statistics.mean(run.samples for run in runs) / statistics.mean(r.samples for r in references),
        "batch": max(run.batch for run in runs),
        "gain": statistics.median(run.gain for run in runs),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=some_of(list(EXAMPLES)), help="names of examples, with commas between them")
    parser.add_argument("--seeds", type=at_least(2), default=5, help="runs of each kind")
    parser.add_argument("--times", type=at_least(2), default=4, help="the larger batch, in initial ones")
    parser.add_argument("--count", type=Count, default=Count.PROGRESS, help="what ends a run: progress or passes")
    arguments = parser.parse_args()
    names = arguments.only or list(EXAMPLES)
    seeds = range(arguments.seeds)
    os.environ["OMP_NUM_THREADS"] = "1"
    started_s = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="quality-") as scratch, ThreadPoolExecutor(2) as pool:
        folder = Path(scratch)
        by_itself = {
            name: [pool.submit(alone, name, seed, folder / f"alone-{name}-{seed}") for seed in seeds]
            for name in names
        }
        as_job = {
            name: [
                pool.submit(adapted, name, seed, arguments.times, arguments.count, folder / f"job-{name}-{seed}")
                for seed in seeds
            ]
            for name in names
        }
        found = {
            name: compared(name, [r.result() for r in as_job[name]], [r.result() for r in by_itself[name]])
            for name in names
        }
    columns = ["example", "metric", "alone", "spread", "adapted", "spread", "worse by", "samples", "batch", "gain"]
    rows = [
        [name, f"{EXAMPLES[name].metric} {'^' if EXAMPLES[name].higher else 'v'}", *figures.values()]
        for name, figures in found.items()
    ]
    table(f"{arguments.seeds} seeds alone, and with batches {arguments.times} times as large", columns, rows)
    print("^ higher is better, v lower; samples: of an adapted run, in those of one alone")
    figures: dict[str, Any] = {"worse": sum(one["worse_by"] > 1 for one in found.values())}
    for name, one in found.items():
        for key in ("alone", "adapted", "spread", "worse_by", "samples"):
            figures[f"{name}_{key}"] = round(one[key], 4)
    figures["wall_s"] = round(time.perf_counter() - started_s, 1)
    finish("end_quality", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
