"""TUNE, GREEDY and shares where few or all jobs are sensitive (Synergy, OSDI'22, Figures 10 and 11).

    python -m benchmarks.synergy_splits [--jobs 1200] [--seeds 1] [--processes 2]

FIFO, jobs of 1 to 16 GPUs, 128 GPUs at a load of 5.5 jobs/h; figures are of the last half of the jobs.
* {split}/{mechanism}/over_proportional: mean JCT over that of `proportional`; <= 1 for `tune` and `priced`.
* {split}/{greedy,tune}/idle_gpus_with_queue: rounds with idle GPUs that a waiting job could use.
* low_load/cpu_use_over_proportional: the part of all CPUs that jobs hold and gain by, tune over proportional, at 3
  jobs/h, where all jobs are sensitive as in figure 10. It is of the fullest rounds (95th percentile; paper: 60 and
  up to 90 %). Over all rounds (`cpu_use`) it can hardly grow: samples need the same CPU time, only sooner.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from coadapt.simulator.derived import PHILLY_GPUS, Derived, derived
from coadapt.simulator.traces.workload import Workload

from .arguments import at_least
from .harness import finish, needs, table
from .synergy_runs import PROFILES, Asked, Found, run_all

GPUS, LOAD, LOW_LOAD = 128, 5.5, 3.0
SPLITS = {"20-70-10": (20, 70, 10), "33-33-33": (33, 33, 33), "50-0-50": (50, 0, 50)}
NAMES = ("proportional", "greedy", "tune", "priced")


def drawn(jobs: int, load: float, split: tuple[float, ...], seed: int) -> Workload:
    return derived(Derived(jobs, load, split, PHILLY_GPUS), seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=at_least(10), default=1200)
    parser.add_argument("--seeds", type=at_least(1), default=1)
    parser.add_argument("--processes", type=at_least(1), default=2)
    options = parser.parse_args()
    needs(PROFILES)
    window = (options.jobs // 2, options.jobs)
    points = [(key, LOAD, split, NAMES) for key, split in SPLITS.items()]
    points.append(("low_load", LOW_LOAD, SPLITS["50-0-50"], ("proportional", "tune", "priced")))
    asked = [
        Asked(partial(drawn, options.jobs, load, split, seed), "fifo", name, GPUS, window=window)
        for _, load, split, names in points
        for seed in range(options.seeds)
        for name in names
    ]
    found = iter(run_all(asked, options.processes))
    figures: dict[str, float] = {}
    rows = []
    for key, _, _, names in points:
        of: dict[str, list[Found]] = {name: [] for name in names}
        for _ in range(options.seeds):
            for name in names:
                of[name].append(next(found))
        for name, runs in of.items():
            each = [a.mean_h / b.mean_h for a, b in zip(runs, of["proportional"], strict=True)]
            idle = float(np.mean([one.watched.idle for one in runs]))
            use = float(np.mean([one.use for one in runs]))
            figures[f"{key}/{name}/mean_jct_h"] = float(np.median([one.mean_h for one in runs]))
            figures[f"{key}/{name}/over_proportional"] = float(np.median(each))
            figures[f"{key}/{name}/idle_gpus_with_queue"] = idle
            full = float(np.mean([one.full_use for one in runs]))
            figures[f"{key}/{name}/cpu_use"] = use
            figures[f"{key}/{name}/full_cpu_use"] = full
            mean_h = figures[f"{key}/{name}/mean_jct_h"]
            rows.append([key, name, mean_h, float(np.median(each)), idle, use, full])
    for name in ("tune", "priced"):
        figures[f"low_load/{name}/cpu_use_over_proportional"] = (
            figures[f"low_load/{name}/full_cpu_use"] / figures["low_load/proportional/full_cpu_use"]
        )
    figures["low_load/cpu_use_over_proportional"] = figures["low_load/tune/cpu_use_over_proportional"]
    columns = [
        "split",
        "mechanism",
        "mean JCT, h",
        "over shares",
        "rounds with idle GPUs",
        "CPU use",
        "fullest rounds",
    ]
    table("FIFO, 1 to 16 GPUs", columns, rows)
    finish("synergy_splits", figures)


if __name__ == "__main__":
    main()
