"""Jobs of Philly itself, with models of the split (20,70,10) (Synergy, OSDI'22, Figure 6).

    python -m benchmarks.synergy_philly [--policies srtf] [--gpus 288] [--processes 2]

The published recipe takes jobs that came in hours 2400 to 3000, took 10^1.5 to 10^4 minutes and asked for 1, 2, 4,
8 or 16 GPUs; the first 8,000 of them run on 512 GPUs. The trace at hand has 5,987 such jobs, which load 277 GPUs.
So they run on a cluster of that size here, and absolute values cannot be compared.
* {policy}/mean_ratio: mean JCT of `proportional` over that of `tune`. Paper: 1.15 (SRTF), 1.14 (LAS), 1.15 (FIFO).
* {policy}/short_p99_ratio: the same of the 99th percentile of jobs up to 4 h (paper, SRTF: 2.2), long_p99_ratio
  of the others (1.03), and best_job: the largest ratio of a job (9). Jobs are short by the baseline's run.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from coadapt.simulator.derived import TASKS
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from .arguments import at_least, some_of
from .harness import DATA, finish, needs, table
from .synergy_runs import HOUR, PROFILES, Asked, run_all

TRACE = DATA / "philly" / "philly_jobs_pollux_82k.csv.gz"
BEFORE_H = 672.6  # from the first job of Philly's whole log, of which hours are counted, to that of this file
SPLIT = (20, 70, 10)
SIZES = (1, 2, 4, 8, 16)
NAMES = ("proportional", "tune", "priced")
SHORT_S = 4 * HOUR
PAPER = {"srtf": 1.15, "las": 1.14, "fifo": 1.15}


def jobs(path: Path, seed: int) -> Workload:
    """Return the jobs of the recipe, each with a model that is drawn."""
    work = read_trace(path, "philly")
    hours, minutes = work.submit_s / HOUR + BEFORE_H, work.duration_s / 60
    wanted = (hours >= 2400) & (hours < 3000) & (minutes >= 10**1.5) & (minutes <= 10**4)
    found = work.select(wanted & np.isin(work.gpus, SIZES))
    random = np.random.default_rng(seed)
    task = random.choice(len(SPLIT), len(found), p=np.array(SPLIT) / sum(SPLIT))
    names = list(TASKS.values())
    models = tuple(str(random.choice(names[at])) for at in task)
    return replace(
        found,
        applications=models,
        submit_s=found.submit_s - found.submit_s[0],
        virtual_clusters=("",) * len(found),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", type=some_of(tuple(PAPER)), default=["srtf", "las", "fifo"])
    parser.add_argument("--gpus", type=at_least(8), default=288)
    parser.add_argument("--processes", type=at_least(1), default=2)
    options = parser.parse_args()
    needs(PROFILES, TRACE)
    work = partial(jobs, TRACE, 0)
    asked = [Asked(work, policy, name, options.gpus) for policy in options.policies for name in NAMES]
    found = iter(run_all(asked, options.processes))
    figures: dict[str, float] = {"jobs": float(len(work()))}
    rows = []
    for policy in options.policies:
        of = {name: next(found) for name in NAMES}
        short = of["proportional"].jct_s <= SHORT_S
        for name, one in of.items():
            figures[f"{policy}/{name}/mean_jct_h"] = one.mean_h
        for name in NAMES[1:]:
            before, after = of["proportional"].jct_s, of[name].jct_s
            key = policy if name == "tune" else f"{policy}/{name}"
            figures[f"{key}/mean_ratio"] = float(before.mean() / after.mean())
            figures[f"{key}/short_p99_ratio"] = float(
                np.percentile(before[short], 99) / np.percentile(after[short], 99)
            )
            figures[f"{key}/long_p99_ratio"] = float(
                np.percentile(before[~short], 99) / np.percentile(after[~short], 99)
            )
            figures[f"{key}/best_job"] = float((before / after).max())
        ratio = figures[f"{policy}/mean_ratio"]
        rows.append([policy, *(of[name].mean_h for name in NAMES), ratio, PAPER[policy]])
    table("Philly: mean JCT, h", ["policy", *NAMES, "gain of tune", "paper"], rows)
    finish("synergy_philly", figures)


if __name__ == "__main__":
    main()
