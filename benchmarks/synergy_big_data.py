"""DRF and Tetris with fixed demands, and the same orders with TUNE (Synergy, OSDI'22, Figure 13).

    python -m benchmarks.synergy_big_data [--jobs 1200] [--load 6.5] [--processes 2]

128 GPUs, jobs of 1 to 16 GPUs, splits (20,70,10) and (50,0,50); figures are of the last half of the jobs. The
naive ones give each job its best-case demand for as long as it runs, and nothing where that does not fit.
* {w1,w2}/{drf,tetris}/gain: mean JCT of the naive one over that with TUNE. Paper, w2: 7.2 (DRF) and 1.8 (Tetris).
"""

from __future__ import annotations

import argparse
from functools import partial

from .arguments import at_least
from .harness import finish, needs, table
from .synergy_runs import PROFILES, Asked, run_all
from .synergy_splits import GPUS, drawn

SPLITS = {"w1": (20, 70, 10), "w2": (50, 0, 50)}
POLICIES = ("drf", "tetris")
NAMES = ("greedy", "tune")
PAPER = {("w2", "drf"): 7.2, ("w2", "tetris"): 1.8}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=at_least(10), default=1200)
    parser.add_argument("--load", type=float, default=6.5)
    parser.add_argument("--processes", type=at_least(1), default=2)
    options = parser.parse_args()
    needs(PROFILES)
    window = (options.jobs // 2, options.jobs)
    points = [(key, policy) for key in SPLITS for policy in POLICIES]
    asked = [
        Asked(partial(drawn, options.jobs, options.load, SPLITS[key], 0), policy, name, GPUS, window=window)
        for key, policy in points
        for name in NAMES
    ]
    found = iter(run_all(asked, options.processes))
    figures: dict[str, float] = {}
    rows = []
    for key, policy in points:
        naive, tuned = next(found), next(found)
        figures[f"{key}/{policy}/naive_mean_jct_h"] = naive.mean_h
        figures[f"{key}/{policy}/tune_mean_jct_h"] = tuned.mean_h
        figures[f"{key}/{policy}/gain"] = naive.mean_h / tuned.mean_h
        gain = naive.mean_h / tuned.mean_h
        rows.append([f"{key} {policy}", naive.mean_h, tuned.mean_h, gain, PAPER.get((key, policy), "-")])
    table("Fixed demands against TUNE", ["", "naive, h", "tune, h", "gain", "paper"], rows)
    finish("synergy_big_data", figures)


if __name__ == "__main__":
    main()
