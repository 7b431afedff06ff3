"""A job that names its sizes gets one of them, on its types, from every policy."""

from __future__ import annotations

import pytest
from coadapt.core.cluster import Cluster
from coadapt.core.job import JobSpec
from coadapt.policies.catalogue import make_policy, policy_names
from coadapt.policies.contract.plan_check import check_plan
from coadapt.policies.contract.round import JobView, Round

from tests.support.rounds import cluster as cluster_of


def view(number: int, **fields: object) -> JobView:
    spec = JobSpec(name="a", command=["python", "t.py"], **fields)
    return JobView(id=f"a-{number}", spec=spec, age_s=100.0 * (9 - number), submitted_s=100.0 * number)


@pytest.mark.parametrize("name", policy_names())
def test_every_policy_keeps_to_the_sizes(name: str) -> None:
    cluster: Cluster = cluster_of("2x t4:4, 1x a100:8")
    jobs = [
        view(1, sizes=[3, 6]),
        view(2, sizes={"t4": [2, 4]}),
        view(3, sizes=[1, 2, 4]),
        view(4, resources={"gpus": 2}),
        view(5, sizes={"a100": [5]}),
    ]
    policy = make_policy(name)
    for n in range(3):
        round = Round(now=60.0 * n, length=60.0, cluster=cluster, jobs=jobs)
        plan = policy.plan(round)
        check_plan(plan, round)
        assert plan.placements
        for job in jobs:
            if (placement := plan.placements.get(job.id)) is not None:
                allowed = job.spec.sizes_on(placement.gpu_type) or [job.spec.resources.gpus]
                assert placement.gpus in allowed, (job.id, placement)
