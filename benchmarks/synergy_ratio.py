"""What TUNE gains where servers have more CPUs for each GPU (Synergy, OSDI'22, Figure 12).

    python -m benchmarks.synergy_ratio [--seeds 2] [--load 8.5] [--processes 2]

FIFO, jobs of 1 GPU, 128 GPUs, split (20,70,10), jobs 4000-4999. The work of a job stays as it is at 3 CPUs for
each GPU, so that the baseline itself gets faster.
* {tune,priced}/gain_at_{3,4,5,6}: mean JCT of `proportional` over theirs, medians over seeds. Paper: 3.4, 3, 2.2
  and 1.8.
* {tune,priced}/falls: 1 if the gain falls with every CPU more.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np

from .arguments import at_least
from .harness import finish, needs, table
from .synergy_load import GPUS, WINDOW, single
from .synergy_runs import PROFILES, Asked, run_all

PAPER = {3: 3.4, 4: 3.0, 5: 2.2, 6: 1.8}
NAMES = ("proportional", "tune", "priced")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=at_least(1), default=2)
    parser.add_argument("--load", type=float, default=8.5)
    parser.add_argument("--processes", type=at_least(1), default=2)
    options = parser.parse_args()
    needs(PROFILES)
    asked = [
        Asked(partial(single, options.load, seed), "fifo", name, GPUS, float(cpus), WINDOW)
        for cpus in PAPER
        for seed in range(options.seeds)
        for name in NAMES
    ]
    found = iter(run_all(asked, options.processes))
    figures: dict[str, float] = {}
    rows = []
    gains: dict[str, list[float]] = {name: [] for name in NAMES[1:]}
    for cpus, paper in PAPER.items():
        means = [[next(found).mean_h for _ in NAMES] for _ in range(options.seeds)]
        for at, name in enumerate(gains, 1):
            gains[name].append(float(np.median([of[0] / of[at] for of in means])))
            figures[f"{name}/gain_at_{cpus}"] = gains[name][-1]
        figures[f"proportional/mean_jct_h_at_{cpus}"] = float(np.median([of[0] for of in means]))
        rows.append([cpus, *np.median(means, axis=0).tolist(), *(of[-1] for of in gains.values()), paper])
    for name, of in gains.items():
        figures[f"{name}/falls"] = float((np.diff(of) < 0).all())
    columns = ["CPUs per GPU", *(f"{name}, h" for name in NAMES), "gain of tune", "gain of priced", "paper"]
    table(f"Load {options.load:g}: mean JCT and gain", columns, rows)
    finish("synergy_ratio", figures)


if __name__ == "__main__":
    main()
