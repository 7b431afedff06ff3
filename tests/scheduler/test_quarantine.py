"""A job with which something is wrong stops no other: it is set aside, keeps what it has, and can come back."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.core.errors import JobStateError
from coadapt.core.events import EventKind
from coadapt.core.job import JobSpec, Phase
from coadapt.scheduler import cycle
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.rounds import models
from coadapt.scheduler.views.job_views import job_row

from tests.support.cycles import RUNS, World
from tests.support.stores import raw


def test_a_job_whose_record_cannot_be_read_keeps_its_gpus_and_comes_back_once_it_can_be(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "submit b unprofiled\ngo")
    path, job_id = world.settings.store_path, world.ids["a"]
    details = raw(path, "select details from job_details where job_id=:v0", job_id)[0][0]
    world.store.close()
    raw(path, "update job_details set details='{' where job_id=:v0", job_id)
    world.executors.left_over = {job_id}
    world.executors.answering = {"a": 1}
    world.open()
    world.cycle.reattach()
    world.play("wish a t4-000:2\nwish b t4-000:2\ngo\nruns b\n? b running\n? sent assign b 2xt4")
    told = [event.data["text"] for event in world.store.events(job_id) if event.kind is EventKind.ERROR]
    assert "its record cannot be read" in told[0]
    with pytest.raises(JobStateError, match="stays in quarantine, as its record cannot be read"):
        world.play("requeue a")
    raw(path, "update job_details set details=:v0 where job_id=:v1", details, job_id)
    world.play("requeue a\ngo\n? a running\n? sent")


def test_a_job_whose_record_cannot_be_read_can_be_ended(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS)
    world.store.close()
    raw(world.settings.store_path, "update job_files set spec='{'")
    world.executors.answering = {"a": 1}
    world.open()
    world.cycle.reattach()
    world.play("? a running\ncancel a\n? sent cancel a\nleft a\ngo\n? a retired\n? sent retire a")


@pytest.mark.parametrize("module", [cycle, models], ids=["upkeep", "model"])
def test_a_job_that_raises_is_set_aside_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "submit b unprofiled\ngo")
    job_id, spec = world.ids["a"], world.job("a").spec
    name = "steps" if module is cycle else "gpus_per_replica"
    right = getattr(module, name)

    def wrong(first: JobRecord | JobSpec, *rest: object) -> object:
        if first is spec or (isinstance(first, JobRecord) and first.id == job_id):
            raise ArithmeticError("no number")
        return right(first, *rest)

    monkeypatch.setattr(module, name, wrong)
    world.play("report a t4\nwish a t4-000:2\nwish b t4-000:2\nnodes 1x t4:4\ngo\ngo\nruns b")
    world.play("? b running\n? sent assign b 2xt4")
    job = world.job("a")
    assert (job.quarantine, job.phase, len(job.target)) == ("ArithmeticError: no number", Phase.RUNNING, 2)
    row = job_row(job)
    assert (row["status"], row["gpus"]) == ("quarantined", 2)
    assert row["reason"].startswith("quarantined, it keeps its GPUs, and `coadapt requeue a-1` lets it take part")
    monkeypatch.undo()
    world.play("requeue a\ngo\n? a running\n? sent")
    assert world.job("a").quarantine == ""
