"""Whether plans with teams are right, on thousands of small rounds against the exact program.

    python -m benchmarks.shares_exact [--instances 2000] [--processes 2]

Rounds are drawn: teams, caps, guarantees, priorities, leases of jobs, and jobs that must be served. scipy's HiGHS
solves each one whole. First it finds how few GPUs guarantees must lack, then the most gain with no more lacking.

`caps_exceeded`: plans beyond a cap or a limit of the cluster.
`guarantees_missed`: plans in which guarantees lack more than in the exact program.
`objective_outside_gap`: plans whose objective and bound do not enclose the optimum.
`share_gap_within_1pct`: plans whose gain is at most 1 % below the optimum's.
`priced/…`: the same of prices of teams without HiGHS, as large rounds are solved; `--no-priced` leaves that out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from tests.support.share_instances import Compared, compare, draw

from .arguments import at_least
from .harness import finish, table

CHUNK = 50


def some(first: int, last: int, few: int | None) -> list[Compared]:
    """Compare the rounds of some seeds."""
    return [compare(draw(seed), few) for seed in range(first, last)]


def figures_of(found: Sequence[Compared]) -> dict[str, float]:
    """Return the figures of all rounds."""
    gaps = np.array([one.gap for one in found])
    return {
        "caps_exceeded": float(sum(one.over_cap or one.over_limits for one in found)),
        "guarantees_missed": float(sum(one.missed for one in found)),
        "objective_outside_gap": float(sum(one.outside for one in found)),
        "share_gap_within_1pct": float((gaps <= 0.01).mean()),
        "gap_p99": float(np.quantile(gaps, 0.99)),
        "gap_max": float(gaps.max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=at_least(1), default=2000)
    parser.add_argument("--processes", type=at_least(1), default=2)
    parser.add_argument("--no-priced", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    begins = range(0, options.instances, CHUNK)
    ends = [min(begin + CHUNK, options.instances) for begin in begins]
    figures: dict[str, float] = {"instances": float(options.instances)}
    rows: list[list[object]] = []
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for name, few in (("", None), ("priced/", 0))[: 1 if options.no_priced else 2]:
            parts = pool.map(partial(some, few=few), begins, ends)
            own = figures_of([one for part in parts for one in part])
            figures |= {f"{name}{key}": value for key, value in own.items()}
            rows.append([name.rstrip("/") or "as small rounds are solved", *own.values()])
    table(f"{options.instances} rounds against the exact program", ["", *own], rows)
    finish("shares_exact", figures)


if __name__ == "__main__":
    main()
