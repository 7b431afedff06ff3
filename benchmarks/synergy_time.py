"""How long a round takes that chooses CPUs, memory and nodes for a full cluster.

    python -m benchmarks.synergy_time [--sizes 128,512,25000] [--rounds 20]

Servers of 8 GPUs, 24 CPUs and 500 GB are full. From round to round a few jobs end and others start. The views of
jobs and what they may choose stand apart from rounds, as they do live.
* {mechanism}_ms_{gpus}: the median of `Policy.plan` over rounds; tune_s_25000 the same in s. Paper: about 1 s for
  TUNE at 128 GPUs, and 200 times that for OPT.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
from coadapt.core.expected import Expected, ExpectedSource
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Round
from coadapt.simulator.derived import PHILLY_GPUS, Derived, derived
from coadapt.simulator.jobs.fixed_size import rigid_spec

from .arguments import at_least, numbers
from .harness import finish, needs, table
from .synergy_runs import PROFILES, ROUND_S, profiles, servers

MECHANISMS = ("proportional", "greedy", "tune", "priced", "optimal")
MOST_OPTIMAL = 512  # its second program has a variable for each job and node


def drawn(count: int, seed: int) -> list[JobView]:
    """Return jobs that wait, in order of submission."""
    work, models = derived(Derived(count, 60.0, gpus=PHILLY_GPUS), seed), profiles().models
    return [
        JobView(
            id=work.ids[at],
            spec=rigid_spec(int(work.gpus[at])),
            submitted_s=float(work.submit_s[at]),
            expected=Expected.exactly(float(work.duration_s[at]), ExpectedSource.TRACE),
            sensitivity=models[work.applications[at]].sensitivity,
        )
        for at in range(count)
    ]


def rounds_s(mechanism: str, gpus: int, count: int) -> np.ndarray:
    """Return (rounds,) the seconds of each round after the first, which fills the cluster."""
    random, cluster = np.random.default_rng(0), servers(gpus)
    options = {"provisioning": mechanism, "preempts": True}
    policy, waiting = make_policy("fifo", **options), drawn(2 * gpus, 0)
    jobs, took = waiting[:gpus], list[float]()
    rest = iter(waiting[gpus:])
    for turn in range(count + 1):
        round = Round(ROUND_S * turn, ROUND_S, cluster, jobs)
        assert len(round.columns.ids) == len(jobs)
        began = time.perf_counter()
        plan = policy.plan(round)
        if turn:
            took.append(time.perf_counter() - began)
        gone = {id for id in plan.placements if random.random() < 0.01}
        jobs = [replace(job, placement=plan.placements.get(job.id)) for job in jobs if job.id not in gone]
        jobs += [job for job, _ in zip(rest, gone, strict=False)]
    return np.array(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=numbers(at_least(8)), default=[128, 512, 25_000])
    parser.add_argument("--rounds", type=at_least(1), default=20)
    options = parser.parse_args()
    needs(PROFILES)
    figures: dict[str, float] = {}
    rows = []
    for gpus in options.sizes:
        count = options.rounds if gpus < 10_000 else max(options.rounds // 5, 1)
        row: list[object] = [gpus]
        for mechanism in MECHANISMS:
            if mechanism == "optimal" and gpus > MOST_OPTIMAL:
                row.append("-")
                continue
            ms = 1e3 * float(np.median(rounds_s(mechanism, gpus, count)))
            figures[f"{mechanism}_ms_{gpus}"] = ms
            row.append(ms)
        rows.append(row)
    if "tune_ms_25000" in figures:
        figures["tune_s_25000"] = figures["tune_ms_25000"] / 1e3
        figures["priced_s_25000"] = figures["priced_ms_25000"] / 1e3
    if "optimal_ms_128" in figures:
        figures["optimal_over_tune_128"] = figures["optimal_ms_128"] / figures["tune_ms_128"]
    table("A round, ms", ["GPUs", *MECHANISMS], rows)
    finish("synergy_time", figures)


if __name__ == "__main__":
    main()
