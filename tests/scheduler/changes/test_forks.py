"""A fork starts when its checkpoint is its own, however often the service is killed, or fails with the reason."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.errors import JobStateError
from coadapt.core.job import JobSpec, Phase
from coadapt.executor.training.state.checkpoint import CheckpointStore
from coadapt.scheduler.changes.forks import Forks, origin_of
from coadapt.scheduler.views.event_views import job_event
from coadapt.scheduler.views.job_views import job_row

from tests.support.cycles import RUNS, World
from tests.support.held_work import HeldWork
from tests.support.records import SPEC
from tests.support.stored_rows import read_back


class Cluster:
    """A cycle, the copies that wait, and a job a-1 that trains and has checkpoints."""

    def __init__(self, folder: Path, *steps: int) -> None:
        self.world = World(folder, "1x t4:4")
        self.world.play(RUNS)
        self.threads = HeldWork()
        self.folder = Path(self.world.settings.checkpoint_url("a-1", None))
        for number in steps:
            CheckpointStore(str(self.folder), keep=5).save({"made": number}, number)
        self.reopen()

    def reopen(self) -> None:
        self.world.tell("reopen", ["a"])
        self.threads.waiting.clear()
        world = self.world
        self.forks = Forks(world.store, world.cycle.orders.do, world.settings, self.threads)
        self.forks.begin_rest()

    def fork(self, name: str, steps: int | None = None) -> None:
        world, spec = self.world, SPEC.model_copy(update={"name": name, "profile": False})
        origin = origin_of(world.job("a"), spec, steps, world.settings)
        world.ids[name] = world.cycle.orders.submit(spec, idempotency_key=name, origin=origin).id
        self.forks.begin(world.ids[name])

    def made(self, name: str) -> Any:
        loaded = CheckpointStore(self.world.settings.checkpoint_url(self.world.ids[name], None)).load_newest()
        return None if loaded is None else loaded[1]["made"]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path, 100, 200)


def test_a_fork_waits_for_its_checkpoint_and_says_so(cluster: Cluster) -> None:
    cluster.fork("b", 100)
    cluster.world.play("go\n? b submitted")
    row = job_row(cluster.world.job("b"))
    assert row["reason"] == "waiting for the checkpoint of step 100 of a-1"
    (event,) = cluster.world.store.events("b-2")
    assert job_event(event)["text"] == "forked from a-1 at step 100"
    cluster.threads.go_on()
    cluster.world.play("wish b t4-000:1\ngo\nruns b\n? b running")
    assert cluster.made("b") == 100


def test_without_a_step_the_newest_checkpoint_counts(cluster: Cluster) -> None:
    cluster.fork("b")
    cluster.threads.go_on()
    assert cluster.made("b") == 200


def test_a_service_that_is_killed_copies_what_was_not_and_nothing_twice(cluster: Cluster) -> None:
    cluster.fork("b", 100)
    cluster.reopen()
    assert len(cluster.threads.waiting) == 1
    cluster.threads.go_on()
    assert cluster.made("b") == 100
    cluster.reopen()
    assert cluster.threads.waiting == []
    cluster.world.play("go\n? b queued")


def test_a_fork_whose_checkpoint_is_gone_fails_with_the_reason(cluster: Cluster) -> None:
    cluster.fork("b", 100)
    shutil.rmtree(cluster.folder)
    cluster.threads.go_on()
    found = cluster.world.job("b")
    assert found.phase is Phase.FAILED
    assert found.state.reason.startswith("fork of a-1: checkpoint step-")
    assert found.state.reason.endswith("a-1 is gone")


def test_a_fork_that_was_cancelled_meanwhile_stays_so_and_can_be_resumed(cluster: Cluster) -> None:
    cluster.fork("b", 100)
    cluster.world.play("cancel b\ngo\n? b retired")
    cluster.threads.go_on()
    assert cluster.made("b") is None
    cluster.world.play("resume b")
    cluster.reopen()
    cluster.threads.go_on()
    cluster.world.play("go\n? b queued")
    assert cluster.made("b") == 100


def test_a_fork_is_paused_like_any_job(cluster: Cluster) -> None:
    cluster.fork("b", 100)
    cluster.world.play("pause b")
    cluster.threads.go_on()
    cluster.world.play("wish b t4-000:1\ngo\n? b queued\nresume b\ngo\nruns b\n? b running")


def test_a_record_of_a_fork_survives_being_written(cluster: Cluster) -> None:
    cluster.fork("b", 100)
    found = cluster.world.job("b")
    assert read_back(found) == found


@pytest.mark.parametrize(
    ("source", "fork", "told"),
    [
        ({"command": ["make"], "elastic": False}, {"script": "t.py"}, "a-1 is of a plain job"),
        ({"script": "t.py"}, {"command": ["make"], "sizes": [1, 2]}, "the job file is of a restarting job"),
    ],
)
def test_only_jobs_that_call_prepare_are_forked(
    source: dict[str, Any], fork: dict[str, Any], told: str, cluster: Cluster
) -> None:
    specs = [JobSpec.model_validate({"name": "a", **fields}) for fields in (source, fork)]
    record = cluster.world.store.get("a-1")
    changed = record.__class__(record.id, record.number, specs[0], record.state)
    with pytest.raises(JobStateError) as refused:
        origin_of(changed, specs[1], None, cluster.world.settings)
    assert str(refused.value) == (
        f"fork: {told}, which never calls coadapt.prepare; only its program knows its checkpoints"
    )


def test_a_checkpoint_that_is_not_there_is_refused_with_those_that_are(cluster: Cluster) -> None:
    with pytest.raises(JobStateError, match=r"^a-1 has no checkpoint of step 7; it has those of 100, 200$"):
        cluster.fork("b", 7)
    assert [job.id for job in cluster.world.store.every()] == ["a-1"]
