"""A whole round of the sia policy at scale: incremental goodput, the program, and placing, in one `Policy.plan`.

    python -m benchmarks.whole_round [--gpus 25000] [--jobs 5000] [--rounds 60] [--churn 0.01] [--fail 1e-4]

The jobs are those of benchmarks/large_rounds.py, of all kinds. In a round 1 % of them end and as many arrive, 4 %
learn something, and all others that train report as usual. One node in 10,000 fails in a round (each about once a
week), and returns ten rounds later. --plain: adaptive jobs alone. The first round starts from nothing and is told
apart. One process, one thread.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time

import numpy as np
from coadapt.policies.catalogue import make_policy
from coadapt.policies.warm_up import warm_up

from .arguments import at_least, share
from .harness import finish, table
from .large_rounds import Workload, cluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=at_least(1), default=25_000)
    parser.add_argument("--jobs", type=at_least(1), default=5_000)
    parser.add_argument("--types", type=at_least(1), default=7)
    parser.add_argument("--rounds", type=at_least(1), default=60)
    parser.add_argument("--churn", type=share, default=0.01)
    parser.add_argument("--learn", type=share, default=0.04)
    parser.add_argument("--fail", type=share, default=1e-4, help="part of the nodes that fails in a round")
    parser.add_argument("--plain", action="store_true", help="all jobs are adaptive and may be preempted")
    parser.add_argument("--tolerance", type=share, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    warm_up("sia", {"tolerance": args.tolerance})
    workload = Workload(
        cluster(args.gpus, args.types),
        args.jobs,
        args.churn,
        args.learn,
        args.seed,
        all_kinds=not args.plain,
        fail=args.fail,
    )
    policy = make_policy("sia", tolerance=args.tolerance)
    gc.collect()
    gc.freeze()
    seconds, solver, gaps, moved, served, away = [], [], [], [], [], []
    for _ in range(args.rounds + 1):
        round = workload.round()
        began = time.perf_counter()
        plan = policy.plan(round)
        seconds.append(time.perf_counter() - began)
        solver.append(plan.solver_s)
        gaps.append(plan.gap)
        served.append(len(plan.placements))
        away.append(len(workload.away))
        moved.append(
            sum(
                job.placement is not None and plan.placements.get(job.id) is not job.placement
                for job in round.jobs
            )
        )
        workload.step(plan)
    warm, warm_solver = np.array(seconds[1:]), np.array(solver[1:])
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rows = [
        ["whole round, s", seconds[0], float(np.median(warm)), float(np.quantile(warm, 0.99)), float(warm.max())],
        [
            "of it the solver, s",
            solver[0],
            float(np.median(warm_solver)),
            float(np.quantile(warm_solver, 0.99)),
            float(warm_solver.max()),
        ],
        ["proven gap", gaps[0], float(np.median(gaps[1:])), float(np.quantile(gaps[1:], 0.99)), max(gaps[1:])],
        [
            "jobs moved or stopped",
            moved[0],
            float(np.median(moved[1:])),
            float(np.quantile(moved[1:], 0.99)),
            max(moved[1:]),
        ],
        ["nodes away", away[0], float(np.median(away[1:])), float(np.quantile(away[1:], 0.99)), max(away[1:])],
    ]
    configurations = len(plan.configurations or ())
    table(
        f"{args.gpus:,} GPUs of {args.types} types, {args.jobs:,} jobs ({int(np.median(served)):,} served), "
        f"{configurations:,} configurations, {args.rounds} rounds",
        ["", "first", "median", "p99", "most"],
        rows,
    )
    finish(
        "whole_round",
        {
            "gpus": args.gpus,
            "jobs": args.jobs,
            "rounds": args.rounds,
            "p50_s": figure(np.median(warm)),
            "p99_s": figure(np.quantile(warm, 0.99)),
            "first_s": figure(seconds[0]),
            "solver_p50_s": figure(np.median(warm_solver)),
            "solver_p99_s": figure(np.quantile(warm_solver, 0.99)),
            "worst_gap": float(f"{max(gaps):.3g}"),
            "peak_gib": figure(peak_gib),
        },
        f"tolerance {args.tolerance}, churn {args.churn}, learn {args.learn}, fail {args.fail}, "
        f"{'plain jobs' if args.plain else 'jobs of all kinds'}",
    )


def figure(value: float | np.floating) -> float:
    return float(f"{float(value):.4g}")


if __name__ == "__main__":
    main()
