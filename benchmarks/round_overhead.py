"""What a round costs besides goodput, solver and placing: configurations, limits, and what each job may use.

    python -m benchmarks.round_overhead [--repeats 3] [--most-gpus 250000] [--seed 0]

The clusters and jobs are those of placer_speed; jobs are adaptive ones of up to 2,048 GPUs, and each tenth is
rigid. Seconds are of the CPU, the least of the repeats.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from coadapt.core.cluster import Cluster
from coadapt.core.job import JobSpec
from coadapt.estimators.goodput import BatchLimits, JobModel
from coadapt.policies.choosing.eligibility import eligibility
from coadapt.policies.contract.configuration import ConfigurationSet, needs
from coadapt.policies.contract.round import JobColumns, JobView

from .harness import finish, table
from .placer_speed import CLUSTERS, changing, cluster

MOST_ROWS = 5_000  # jobs whose eligibility is computed at once


def specs(jobs: int) -> list[JobSpec]:
    """Return one object per job, as a service reads them, of two dozen kinds."""
    adaptive = [{"max_gpus": 2**k} for k in range(12)]
    rigid = [{"gpus": k} for k in range(1, 13)]
    kinds = [
        JobSpec.model_validate(
            {"name": "job", "script": "train.py", "resources": r, "training": {"adaptivity": adaptivity}}
        )
        for resources, adaptivity in ((adaptive, "adaptive"), (rigid, "rigid"))
        for r in resources
    ]
    return [kinds[12 + i // 10 % 12 if i % 10 == 0 else i % 12].model_copy() for i in range(jobs)]


def least_s(work: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


def measure(gpus: int, jobs: int, repeats: int, seed: int) -> tuple[int, dict[str, float]]:
    """Return configurations, and CPU seconds of each part."""
    where = cluster(gpus)
    current = changing(where, jobs, 0.05, seed).current
    model = JobModel({}, None, BatchLimits(32, 4096), {})
    views = [
        JobView(f"job-{i:06d}", spec, model, current.get(f"job-{i:06d}"), largest_gpus={"t4": 8})
        for i, spec in enumerate(specs(jobs))
    ]
    extra, most = needs(where, (view.spec for view in views))
    found = ConfigurationSet(where, extra, most)
    rows = min(jobs, MOST_ROWS)
    goodput = np.random.default_rng(seed).random((rows, len(found)))
    few = max(jobs // 100, 1)
    work: dict[str, Callable[[], object]] = {
        "same nodes anew": lambda: Cluster(tuple(replace(node) for node in where.nodes)) == where,
        "configurations": lambda: ConfigurationSet(where, extra, most).arrays,
        "needs": lambda: needs(where, (view.spec for view in views)),
        "index": lambda: [found.index(view.placement) for view in views],
        "limits": found.limits,
        "columns": lambda: JobColumns.of(views),
        f"eligible, {MOST_ROWS:,} jobs": lambda: eligibility(views[:rows], found, goodput),
        "eligible, 1 %": lambda: eligibility(views[:few], found, goodput[:few]),
    }
    return len(found), {name: least_s(part, repeats) for name, part in work.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--most-gpus", type=int, default=max(CLUSTERS))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    parts: dict[str, list[object]] = {}
    clusters: list[str] = []
    figures: dict[str, float | int | str | None] = {}
    for gpus, jobs in CLUSTERS.items():
        if gpus > args.most_gpus:
            continue
        count, seconds = measure(gpus, jobs, args.repeats, args.seed)
        clusters.append(f"{gpus:,} GPUs, {jobs:,} jobs")
        for name, cell in {"number of configurations": count, **seconds}.items():
            parts.setdefault(name, [name]).append(cell)
        each_round = sum(seconds[name] for name in ("needs", "index", "limits", "eligible, 1 %"))
        figures[f"each_round_s_{gpus}_gpus"] = round(each_round, 4)
        figures[f"new_nodes_s_{gpus}_gpus"] = round(seconds["same nodes anew"] + seconds["configurations"], 4)
        figures[f"eligible_s_{gpus}_gpus"] = round(seconds[f"eligible, {MOST_ROWS:,} jobs"], 4)
    table("CPU seconds of a round's parts", ["part", *clusters], list(parts.values()))
    finish("round_overhead", figures)


if __name__ == "__main__":
    main()
