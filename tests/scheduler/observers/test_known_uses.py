"""A job of which nothing was seen yet is taken to use its GPUs as the last job of its script did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.job import JobSpec, JobState, Phase, ResourceRequest
from coadapt.core.usage import Mean, Usage, UsageOn
from coadapt.scheduler.jobs.lifecycle import advance
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.observers.hooks import Change
from coadapt.scheduler.observers.known_uses import KnownUses
from coadapt.scheduler.store.store import Store

from tests.support.cycles import World
from tests.support.stores import raw

JOB = JobRecord("a-1", 1, JobSpec(name="a", script="t.py"), JobState(submitted_s=0.0), script_key="s", owner="ann")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "jobs.sqlite")


def seen(gpu_util: float) -> dict[str, UsageOn]:
    return {"t4": UsageOn(Usage(60.0, Mean.of(gpu_util, 60.0)))}


def ended(job: JobRecord, gpu_util: float, phase: Phase = Phase.SUCCEEDED) -> JobRecord:
    state = replace(job.state, phase=phase, started_s=1.0, finished_s=90.0)
    return replace(job, state=state, usage=seen(gpu_util))


def test_the_next_job_of_a_script_is_known_by_the_last_one(store: Store) -> None:
    uses = KnownUses(store)
    assert uses.of(JOB) == {}
    uses.changed(Change(JOB, ended(JOB, 0.3), 90.0))
    uses.changed(Change(JOB, ended(JOB, 0.5), 95.0))
    assert uses.of(JOB) == seen(0.5)
    own = replace(JOB, usage=seen(0.9))
    assert uses.of(own) == seen(0.9), "what was seen of it counts more"


@pytest.mark.parametrize(
    "other",
    [
        replace(JOB, owner="bob"),
        replace(JOB, script_key="t"),
        replace(JOB, script_key=""),
        replace(JOB, spec=JOB.spec.model_copy(update={"resources": ResourceRequest(min_gpus=2, max_gpus=2)})),
    ],
    ids=["of another user", "of another script", "of no script", "on more GPUs"],
)
def test_other_jobs_tell_nothing(store: Store, other: JobRecord) -> None:
    uses = KnownUses(store)
    uses.changed(Change(other, ended(other, 0.3), 90.0))
    assert uses.of(JOB) == {}


def test_a_job_that_failed_tells_nothing(store: Store) -> None:
    uses = KnownUses(store)
    uses.changed(Change(JOB, ended(JOB, 0.3, Phase.FAILED), 90.0))
    assert uses.of(JOB) == {}


def test_a_scheduler_that_starts_anew_knows_it_from_the_store(store: Store, tmp_path: Path) -> None:
    job, _ = store.submit(JOB.spec, 0.0, idempotency_key="a", owner="ann", script_key="s")
    for phase in (Phase.QUEUED, Phase.RUNNING, Phase.SUCCEEDED):
        job = replace(job, state=advance(job.state, phase, 90.0), usage=seen(0.3))
        store.save(job)
    assert KnownUses(store).of(replace(JOB, id="a-2")) == seen(0.3)
    raw(tmp_path / "jobs.sqlite", "update job_reports set report='{'")
    assert KnownUses(store).of(JOB) == {}, "a torn report tells nothing"


def test_policies_see_it_in_the_first_round_of_the_next_job(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play("submit a unprofiled same=s\nwish a t4-000:2\ngo\nruns a\nafter 97")
    world.store.save(replace(world.job("a"), usage=seen(0.3)))
    world.play("finish a\nleft a\ngo\nsubmit b unprofiled same=s\nsubmit c unprofiled same=t\ngo")
    used = {view.id: view.usage for view in world.policy.rounds[-1].jobs}
    assert used == {world.ids["b"]: seen(0.3), world.ids["c"]: {}}
