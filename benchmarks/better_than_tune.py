"""Our mechanism against TUNE, with what is left over handed out, on the traces of Synergy's benchmarks.

    python -m benchmarks.better_than_tune [--seeds 1] [--processes 2]

* {trace}/mean_jct_ratio: mean JCT of `priced` over that of `tune`; <= 0.85 at loads from 8.5 on, <= 1.0 always.
* {trace}/over_bound: mean JCT over that on one ideal machine; <= 1.01 for jobs of 1 GPU.
* {trace}/worst_job_over_proportional: the least, over jobs and rounds, of a job's speed over that at its share.
* {trace}/moves_ratio: jobs that change nodes while they run, over those under `tune`; <= 1.0.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from .arguments import at_least
from .harness import finish, needs, table
from .synergy_load import MULTI_WINDOW, WINDOW, load_of, multi, single
from .synergy_runs import DYNAMIC, IDEAL, PROFILES, STATIC, Asked, run_all
from .synergy_splits import SPLITS, drawn

NAMES = ("tune", "priced", IDEAL)
SPLIT_JOBS = 500


def traces(seed: int) -> dict[str, tuple[Callable[[], Workload], str, int, tuple[int, int] | None]]:
    """Return the traces by name: jobs, policy, GPUs and the jobs that figures are of."""
    found: dict[str, tuple[Callable[[], Workload], str, int, tuple[int, int] | None]] = {
        "static_fifo": (partial(read_trace, STATIC), "fifo", 32, None),
        "dynamic_srtf": (partial(read_trace, DYNAMIC), "srtf", 32, None),
        "fifo_single_81h": (partial(single, load_of(seed), seed), "fifo", 128, WINDOW),
        "fifo_single_9.5": (partial(single, 9.5, seed), "fifo", 128, WINDOW),
        "las_multi_5.5": (partial(multi, 5.5, seed), "las", 128, MULTI_WINDOW),
    }
    for key, split in SPLITS.items():
        window = (SPLIT_JOBS // 2, SPLIT_JOBS)
        found[f"fifo_multi_{key}"] = (partial(drawn, SPLIT_JOBS, 5.5, split, seed), "fifo", 128, window)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=at_least(1), default=1)
    parser.add_argument("--processes", type=at_least(1), default=2)
    options = parser.parse_args()
    needs(PROFILES, STATIC, DYNAMIC)
    keys = [(seed, key, about) for seed in range(options.seeds) for key, about in traces(seed).items()]
    asked = [
        Asked(work, policy, name, gpus, window=window)
        for _, _, (work, policy, gpus, window) in keys
        for name in NAMES
    ]
    found = iter(run_all(asked, options.processes))
    by_key: dict[str, list[tuple[float, float, float, float]]] = {}
    for _, key, _ in keys:
        tune, priced, bound = (next(found) for _ in NAMES)
        by_key.setdefault(key, []).append(
            (
                priced.mean_h / tune.mean_h,
                priced.mean_h / bound.mean_h,
                priced.watched.least_speed,
                priced.watched.moves / max(tune.watched.moves, 1),
            )
        )
    figures: dict[str, float] = {}
    rows = []
    for key, of in by_key.items():
        ratio, over, _, moves = np.median(of, axis=0).tolist()
        least = min(one[2] for one in of)
        figures[f"{key}/mean_jct_ratio"], figures[f"{key}/over_bound"] = ratio, over
        figures[f"{key}/worst_job_over_proportional"], figures[f"{key}/moves_ratio"] = least, moves
        rows.append([key, ratio, over, least, moves])
    figures["worst_mean_jct_ratio"] = max(figures[f"{key}/mean_jct_ratio"] for key in by_key)
    figures["worst_job_over_proportional"] = min(figures[f"{key}/worst_job_over_proportional"] for key in by_key)
    figures["worst_moves_ratio"] = max(figures[f"{key}/moves_ratio"] for key in by_key)
    columns = ["trace", "JCT over tune's", "over the ideal", "least speed", "moves over tune's"]
    table("priced against tune", columns, rows)
    finish("better_than_tune", figures)


if __name__ == "__main__":
    main()
