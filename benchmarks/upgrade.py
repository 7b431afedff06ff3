"""Whether an upgrade loses anything: stores of released versions, and a service exchanged while jobs train.

    python -m benchmarks.upgrade

`stores_unchanged`: how many stores held all that they had held, of one of each released version that went up, down
    and up again. `versions`: how many there are.
`steps_lost`: steps that five training jobs did twice or left out while their service was exchanged by
    `coadapt down --keep-jobs` and `up`. `processes_restarted`: training processes that began anew.
`longest_step_s`: the longest time from one step to the next while the service was exchanged; `usual_step_s` is the
    median before that. `away_s`: from the end of the old service until the new one answered.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from coadapt.client.client import Client
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster
from coadapt.scheduler.store import opening

from tests.support.released_stores import RELEASED, contents, migrate, put

from .arguments import at_least
from .harness import finish, table

PATIENCE_S = 240.0
SCRIPT = Path(__file__).parent / "scripts" / "counted_steps.py"
WARM_STEPS = 100  # of each job, before anything is done and after


@dataclass(frozen=True)
class Step:
    """A step that a training process has done: which one, by whom, and when."""

    number: int
    pid: int
    at_s: float


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.upgrade", description="Whether an upgrade loses anything.")
    parser.add_argument("--jobs", type=at_least(1), default=5, help="training jobs (5)")
    given = parser.parse_args(words)
    figures = {**of_stores(), **of_exchange(given.jobs)}
    table("An upgrade", ["figure", "measured"], [[name, value] for name, value in figures.items()])
    finish("upgrade", figures)


def of_stores() -> Mapping[str, float]:
    """Bring a store of each released version up, down and up, and compare what it holds."""
    unchanged = 0
    for version in RELEASED:
        with tempfile.TemporaryDirectory() as folder:
            where, backups = Path(folder) / "jobs.sqlite", Path(folder) / "backups"
            put(version, where, Path(folder))
            before = contents(where)
            migrate(where, opening.VERSION, backups)
            up = contents(where)
            migrate(where, version, backups)
            down = contents(where)
            migrate(where, opening.VERSION, backups)
            unchanged += (down, contents(where)) == (before, up)
    return {"versions": len(RELEASED), "stores_unchanged": unchanged}


def of_exchange(jobs: int) -> Mapping[str, float]:
    """Exchange the service under training jobs, and look at the steps of each."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        before = os.environ.get("COADAPT_HOME")
        os.environ["COADAPT_HOME"] = str(home)
        try:
            return _exchanged(jobs, Path(folder), Settings(state_dir=str(home), policy="fifo"))
        finally:
            local_cluster.down(home)
            if before is None:
                del os.environ["COADAPT_HOME"]
            else:
                os.environ["COADAPT_HOME"] = before


def _exchanged(jobs: int, folder: Path, settings: Settings) -> Mapping[str, float]:
    emulate = f"1x t4:{jobs}"
    client = local_cluster.up(emulate, settings=settings)
    files = [_submit(client, folder, number) for number in range(jobs)]
    _until(lambda: all(row["phase"] == "running" for row in client.list()))
    first = [len(_steps(file)) for file in files]  # measuring has steps, too, in processes of its own
    _until(lambda: all(len(_steps(file)) > mark + WARM_STEPS for file, mark in zip(files, first, strict=True)))
    client.close()
    began_s = time.time()
    local_cluster.down(settings.state_dir, keep_jobs=True)
    left_s = time.time()
    client = local_cluster.up(emulate, settings=settings)
    back_s = time.time()
    marks = [len(_steps(file)) for file in files]
    _until(lambda: all(len(_steps(file)) > mark + WARM_STEPS for file, mark in zip(files, marks, strict=True)))
    end_s = time.time()
    lost = restarted = 0
    usual, during = list[float](), list[float]()
    for file, mark in zip(files, first, strict=True):
        steps = _steps(file)[mark:]
        numbers = [step.number for step in steps]
        lost += len(numbers) - len(set(numbers)) + (max(numbers) - min(numbers) + 1 - len(set(numbers)))
        restarted += len({step.pid for step in steps}) - 1
        for one, other in pairwise(steps):
            if other.at_s < began_s:
                usual.append(other.at_s - one.at_s)
            elif one.at_s < end_s:
                during.append(other.at_s - one.at_s)
    rows = client.list()
    client.close()
    return {
        "jobs_running": sum(row["phase"] == "running" for row in rows),
        "steps_lost": lost,
        "processes_restarted": restarted,
        "restarts_told": sum(row["restarts"] for row in rows),
        "usual_step_s": round(statistics.median(usual), 4),
        "longest_step_before_s": round(max(usual), 4),
        "longest_step_s": round(max(during), 4),
        "away_s": round(back_s - left_s, 2),
    }


def _submit(client: Client, folder: Path, number: int) -> Path:
    """Submit a job that writes its steps to a file; return the file."""
    home, file = folder / f"job{number}", folder / f"steps{number}"
    home.mkdir()
    (home / "train.py").write_text(SCRIPT.read_text())
    (home / "job.yaml").write_text(
        f"name: steps-{number}\nscript: train.py\nargs: [{file}]\nresources: {{max_gpus: 1}}\n"
        "training: {report_interval_s: 2}\n"
    )
    client.submit(home / "job.yaml")
    return file


def _steps(file: Path) -> list[Step]:
    """Return the steps that are written; the last line may be cut."""
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    found = [line.split() for line in lines if line.endswith("\n")]
    return [Step(int(number), int(pid), float(at_s)) for number, pid, at_s in found]


def _until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline_s:
            raise SystemExit(f"the jobs have not come far enough in {PATIENCE_S:.0f} s")
        time.sleep(0.2)  # between two looks, up to a limit


if __name__ == "__main__":
    main()
