"""Nodes and jobs of pools: a job is measured and run in its own pool, and waits for it where it has no nodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec, Phase
from coadapt.core.settings import Settings
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.sharing import Sharing
from coadapt.policies.per_pool import PerPool
from coadapt.scheduler.changes.unmeasured_types import with_new_types
from coadapt.scheduler.jobs.fitting_types import allowed_types, waiting_reason
from coadapt.scheduler.rounds.snapshot import take_snapshot
from coadapt.scheduler.store.store import Store

NODES = Cluster((Node("1", "t4", 2, pool="a"), Node("2", "a100", 4, pool="b"), Node("3", "t4", 4, pool="b")))


def spec(pool: str | None, **resources: object) -> JobSpec:
    return JobSpec.model_validate({"name": "job", "script": "train.py", "pool": pool, "resources": resources})


@pytest.mark.parametrize(("pool", "types"), [("a", ("t4",)), ("b", ("a100", "t4")), ("c", ()), (None, ())])
def test_a_job_may_use_the_gpu_types_of_its_pool(pool: str | None, types: tuple[str, ...]) -> None:
    assert allowed_types(spec(pool), NODES) == types


@pytest.mark.parametrize(
    ("pool", "resources", "said"),
    [
        ("c", {}, "waiting for pool c, which has no nodes now"),
        ("a", {"gpu_types": ["a100"]}, "waiting for GPU type a100; pool a has t4"),
        (
            "a",
            {"gpus_per_replica": 4, "max_gpus": 4},
            "waiting for a node with enough GPUs for one replica; pool a has t4",
        ),
        (None, {"gpu_types": ["t4"]}, "waiting for GPU type t4; what belongs to no pool has no GPUs"),
    ],
)
def test_a_job_that_its_pool_cannot_run_says_what_it_waits_for(
    pool: str | None, resources: dict[str, object], said: str
) -> None:
    assert waiting_reason(spec(pool, **resources), NODES) == said


def test_profile_runs_and_jobs_get_gpus_of_their_own_pool(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    jobs = []
    for i, pool in enumerate("aabb"):
        job, _ = store.submit(spec(pool), float(i), idempotency_key=str(i))
        job = with_new_types(replace(job, state=replace(job.state, phase=Phase.PROFILING)), NODES)
        jobs.append(job)
    settings = Settings(state_dir=str(tmp_path))
    snapshot = take_snapshot(jobs, {}, NODES, store, settings, 100.0)
    # Profile runs may have half of a pool's GPUs of a type. That is 1 of 2 t4 in a, and 2 of 4 of each type in b.
    assert sorted((work.job_id, work.gpu_type) for work in snapshot.work.values()) == [
        (jobs[0].id, "t4"),
        (jobs[2].id, "a100"),
        (jobs[2].id, "t4"),
        (jobs[3].id, "a100"),
        (jobs[3].id, "t4"),
    ]
    team = {jobs[0].id: "vision", jobs[2].id: "speech"}
    shared = take_snapshot(jobs, {}, NODES, store, settings, 100.0, sharing=Sharing({}, team)).round.sharing
    assert shared is not None
    assert shared.measured_for == {
        view: team[work.job_id] for view, work in snapshot.work.items() if work.job_id in team
    }
    plan = PerPool(partial(make_policy, "sia")).plan(snapshot.round)
    pools = {node.id: node.pool for node in NODES.nodes}
    by_job = {job.id: job.spec.pool for job in jobs}
    assert len(plan.placements) == 5
    for view, placement in plan.placements.items():
        assert {pools[share.node_id] for share in placement.shares} == {by_job[snapshot.work[view].job_id]}
