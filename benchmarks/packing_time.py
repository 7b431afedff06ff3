"""How long a round of `lucid` and `packed` takes with many waiting jobs, with all their estimates.

    python -m benchmarks.packing_time [--jobs 2048] [--rounds 50]

A full cluster of 1,080 GPUs, every estimate known, uses of GPUs drawn with a seed. From round to round a few jobs
end, others start, and new ones come. The columns of a round are read once for all; they stand apart.
* lucid/decision_ms_2048: the median of `Policy.plan` over rounds (thesis, figure 4.9: 3 ms). _p99: the 99th
  percentile. columns_ms_2048: to read the columns of a round from the views of its jobs.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
from coadapt.core.cluster import Cluster, Node
from coadapt.core.expected import Expected, ExpectedSource
from coadapt.core.job import JobSpec
from coadapt.core.usage import Usage, UsageOn
from coadapt.estimators.affinity.uses import usage_of
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Round
from coadapt.simulator.jobs.fixed_size import rigid_spec

from .arguments import at_least
from .harness import finish, table

NODES, GPUS = 135, 8
SIZES = (1, 2, 4, 8, 16)
PARTS = (0.7, 0.1, 0.1, 0.08, 0.02)


def drawn(number: int, now: float, random: np.random.Generator) -> JobView:
    gpus = int(random.choice(SIZES, p=PARTS))
    seconds = float(random.lognormal(7.0, 1.8))
    usage = Usage() + usage_of(float(random.uniform(0.05, 1)), float(random.uniform(0, 0.6)), 4.0)
    spec: JobSpec = rigid_spec(gpus)
    return JobView(
        id=f"job-{number:06d}",
        spec=spec,
        submitted_s=now,
        expected=Expected.exactly(seconds, ExpectedSource.EARLIER_RUNS),
        usage={"gpu": UsageOn(usage, usage)},
    )


def longer(job: JobView, seconds: float) -> JobView:
    """Return a job after so long on the GPUs that it has."""
    if job.placement is None:
        return job
    return replace(job, attained_gpu_s=job.attained_gpu_s + seconds * job.placement.weight)


def rounds(policy: str, waiting: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (rounds,) the seconds of each round with so many jobs that wait, and those of reading its columns."""
    random, chosen = np.random.default_rng(seed), make_policy(policy)
    cluster = Cluster(tuple(Node(f"n{at:04d}", "gpu", GPUS) for at in range(NODES)))
    jobs, number, now, took, reads = list[JobView](), 0, 0.0, list[float](), list[float]()
    for turn in range(count + 3):
        there = [job for job in jobs if job.placement is not None]
        gone = {job.id for job in there if random.random() < 0.02}
        jobs = [longer(job, 60.0) for job in jobs if job.id not in gone]
        while sum(job.placement is None for job in jobs) < waiting:
            jobs.append(drawn(number, now, random))
            number += 1
        now += 60.0
        round = Round(now, 60.0, cluster, jobs)
        began = time.perf_counter()
        assert len(round.columns.ids) == len(jobs)
        read = time.perf_counter()
        plan = chosen.plan(round)
        if turn >= 3:  # the first ones fill the cluster
            took.append(time.perf_counter() - read)
            reads.append(read - began)
        jobs = [replace(job, placement=plan.placements.get(job.id)) for job in jobs]
    return np.array(took), np.array(reads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=at_least(1), default=2048)
    parser.add_argument("--rounds", type=at_least(1), default=50)
    options = parser.parse_args()
    figures, rows = dict[str, float](), list[list[object]]()
    for policy in ("lucid", "packed", "qssf", "fifo"):
        took_s, reads_s = rounds(policy, options.jobs, options.rounds, 0)
        took_ms = 1e3 * took_s
        figures[f"columns_ms_{options.jobs}"] = float(1e3 * np.median(reads_s))
        figures[f"{policy}/decision_ms_{options.jobs}"] = float(np.median(took_ms))
        figures[f"{policy}/decision_ms_{options.jobs}_p99"] = float(np.percentile(took_ms, 99))
        rows.append([policy, np.median(took_ms), np.percentile(took_ms, 99)])
    table(f"A round with {options.jobs} waiting jobs, ms", ["policy", "median", "p99"], rows)
    finish("packing_time", figures)


if __name__ == "__main__":
    main()
