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
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster
from coadapt.scheduler.store import opening

from tests.support.released_stores import RELEASED, contents, migrate, put

from .arguments import at_least
from .harness import finish, table
from .months.counted_jobs import lost_steps, steps_in, submit, until

WARM_STEPS = 100  # of each job, before anything is done and after


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
    files = [submit(client, folder, number) for number in range(jobs)]
    until(lambda: all(row["phase"] == "running" for row in client.list()))
    first = [len(steps_in(file)) for file in files]  # measuring has steps, too, in processes of its own
    until(lambda: all(len(steps_in(file)) > mark + WARM_STEPS for file, mark in zip(files, first, strict=True)))
    client.close()
    began_s = time.time()
    local_cluster.down(settings.state_dir, keep_jobs=True)
    left_s = time.time()
    client = local_cluster.up(emulate, settings=settings)
    back_s = time.time()
    marks = [len(steps_in(file)) for file in files]
    until(lambda: all(len(steps_in(file)) > mark + WARM_STEPS for file, mark in zip(files, marks, strict=True)))
    end_s = time.time()
    lost = restarted = 0
    usual, during = list[float](), list[float]()
    for file, mark in zip(files, first, strict=True):
        steps = steps_in(file)[mark:]
        lost += lost_steps(steps)
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


if __name__ == "__main__":
    main()
