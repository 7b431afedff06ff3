"""How long the program of leases takes, and how near to the best plan it ends, beside HiGHS.

    python -m benchmarks.lease_program [--seeds 5] [--peer-s 60]

70 % of the jobs have a deadline; they ask for 1 to 16 GPUs and have up to two shapes, all drawn.
Without a prefix: 120 nodes of 8 GPUs, 600 jobs, 24 slots. `small/`: 12 nodes, 60 jobs, solved to the end.
The peer is HiGHS on the printed program, repaired, on one thread.

`p99_s`, `max_s`: of one solve. `gap`: the largest proven, (bound - value) / value.
`short_of_highs`: by what part a plan brings less than HiGHS' own, the largest. Where it is below 0 it brings more.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping

import numpy as np
from coadapt.optimizer.leases.printed import solved
from coadapt.optimizer.leases.problem import check
from coadapt.optimizer.leases.solver import solve

from tests.support.lease_problems import drawn

from .arguments import at_least
from .harness import finish, table

SIZES = {"large": (120, 600, 24, 0.01, 1.0), "small": (12, 60, 24, 0.0, 60.0)}


def measured(size: str, seeds: int, peer_s: float) -> Mapping[str, float]:
    """Return the figures of programs of one size."""
    nodes, jobs, slots, gap, limit_s = SIZES[size]
    took_s, peer_took_s, gaps, short = [], [], [], []
    solve(drawn(1, 4, 4, 0))  # loads what is loaded once
    for seed in range(seeds):
        problem = drawn(nodes, jobs, slots, seed)
        began = time.perf_counter()
        plan = solve(problem, gap=gap, time_limit_s=limit_s)
        took_s.append(time.perf_counter() - began)
        if wrong := check(problem, plan.option, plan.taken):
            raise SystemExit(f"{size}, seed {seed}: {wrong}")
        gaps.append(plan.gap)
        began = time.perf_counter()
        peer, _ = solved(problem, peer_s, gap=max(gap, 1e-9))
        peer_took_s.append(time.perf_counter() - began)
        short.append(np.nan if peer is None else (peer.value - plan.value) / peer.value)
    return {
        "p99_s": float(np.quantile(took_s, 0.99)),
        "median_s": float(np.median(took_s)),
        "max_s": max(took_s),
        "gap": max(gaps) if max(gaps) > 1e-9 else 0.0,
        "short_of_highs": float(np.nanmax(short)) if not np.isnan(short).all() else float("nan"),
        "highs_median_s": float(np.median(peer_took_s)),
        "highs_max_s": max(peer_took_s),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=at_least(1), default=5)
    parser.add_argument("--peer-s", type=at_least(1), default=60)
    options = parser.parse_args()
    found = {size: measured(size, options.seeds, float(options.peer_s)) for size in SIZES}
    rows = [[size, *own.values()] for size, own in found.items()]
    table(f"{options.seeds} programs of each size", ["", *found["large"]], rows)
    small = {f"small/{key}": value for key, value in found["small"].items()}
    finish("lease_program", {**found["large"], **small})


if __name__ == "__main__":
    main()
