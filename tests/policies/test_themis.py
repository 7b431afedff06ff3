"""Themis serves those who are furthest behind what a fair share would have given them."""

from __future__ import annotations

import numpy as np
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobColumns, Round
from coadapt.policies.themis import finish_time_fairness

from tests.support.rounds import cluster, job, left, on


def columns(**values: list[float]) -> JobColumns:
    count = len(values["gpus"])
    defaults = {name: [0.0] * count for name in ("submitted_s", "held", "attained_gpu_s", "remaining_s")}
    numbers = {name: np.array(column) for name, column in {**defaults, **values}.items()}
    return JobColumns(
        **numbers,
        preemptible=np.full(count, True),
        ids=np.array([str(i) for i in range(count)], object),
        placements=np.full(count, None, object),
    )


def test_rho_compares_the_shared_cluster_with_a_fair_share_of_it() -> None:
    # Two jobs on 4 GPUs: a share is 2. The first asks for 4, so alone on its share it takes twice its 100 s.
    jobs = columns(gpus=[4, 1], remaining_s=[100.0, 100.0], submitted_s=[0.0, 0.0])
    assert finish_time_fairness(jobs, 0.0, 4).tolist() == [0.5, 1.0]
    assert finish_time_fairness(jobs, 100.0, 4).tolist() == [1.0, 2.0]


def test_who_waited_longest_for_little_work_goes_first() -> None:
    where = cluster("1x t4:2")
    waiting = job("waiting", adaptivity="rigid", gpus=2, submitted_s=0.0, expected=left(60.0))
    served = job(
        "served", adaptivity="rigid", gpus=2, submitted_s=0.0, expected=left(9000.0), placement=on("t4", n0=2),
        attained_gpu_s=2000.0,
    )  # fmt: skip
    plan = make_policy("themis").plan(Round(1000.0, 60.0, where, [served, waiting]))
    assert list(plan.placements) == ["waiting"]


def test_jobs_that_all_fit_all_run() -> None:
    where = cluster("2x t4:4")
    jobs = [job(str(i), adaptivity="rigid", gpus=2, expected=left(100.0 * (i + 1))) for i in range(4)]
    assert len(make_policy("themis").plan(Round(500.0, 60.0, where, jobs)).placements) == 4
