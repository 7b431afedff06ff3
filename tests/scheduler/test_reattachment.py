"""After a restart of the service jobs go on, and executors are told again what they may not have heard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from coadapt.core.slot import Slot
from coadapt.executor.executor_job import ExecutorStatus
from coadapt.scheduler.changes.reactions import claim, react
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.reattachment import reattach

from tests.support.cycles import RUNS, World
from tests.support.records import A, B, job
from tests.support.simulated_workers import World as Workers
from tests.support.stored_rows import store_earlier

STORIES = {
    "a service that starts again leaves its jobs alone": RUNS
    + """
        report a t4
        reopen a
        go
        ? a running
        ? a knows t4
        ? sent
    """,
    "a service that starts again repeats what an executor may not have heard": RUNS
    + """
        reopen a=0
        ? sent assign a 2xt4
    """,
    "a service that starts again repeats the command where an executor does not answer": RUNS
    + """
        reopen a=-
        ? sent assign a 2xt4
    """,
    "a job that left GPUs of which its executor may never have heard has it release them": RUNS
    + """
        pause a
        reopen a=0
        ? sent assign a nothing | assign a nothing | assign a 2xt4
    """,
    "a job whose executor is gone after a restart queues and starts again": RUNS
    + """
        reopen
        ? a queued
        ? a because its executor is gone
        go
        ? sent assign a 2xt4
    """,
    "a profile run goes on over a restart of the service": """
        submit a
        go
        reopen a=0
        ? sent profile a t4 | profile a t4
        measured a t4
        go
        ? a queued
    """,
    "a job that had ended when the service came back is cancelled where its executor still answers": RUNS
    + """
        finish a
        reopen a
        ? sent cancel a
    """,
    "a profile run that was given up is given up again": """
        submit a
        go
        ? sent profile a a100 | profile a t4
        measured a a100
        after 700
        go 1
        ? sent end_profile a t4
        ? a queued
        ? a held 1
        reopen a
        ? sent end_profile a t4
    """,
}


def test_gpus_that_were_given_and_taken_back_unheard_are_released_and_nothing_starts(tmp_path: Path) -> None:
    given = claim(job(), (A, B), 1.0).job
    taken_back = claim(given, (), 2.0).job
    assert taken_back.held == (A, B)
    far = Reconciled()
    status = ExecutorStatus("idle", far.machine.sequence)
    reattach(taken_back, {taken_back.id: status}, cast(Any, None), cast(Any, far), 3.0)
    far.run(3.0)
    assert not far.processes
    for event in far.told:
        taken_back = react(taken_back, event, 6.0).job
    assert not taken_back.held


class Reconciled(Workers):
    """The executor of one job, with simulated workers, which takes commands as the service sends them."""

    def assign(self, job: JobRecord, slots: Sequence[Slot], sequence: int) -> None:
        self.deliver(slots, sequence)


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_after_a_restart(story: str, tmp_path: Path) -> None:
    World(tmp_path, "1x t4:4, 1x a100:4" if "a100" in story else "1x t4:4").play(story)


def test_an_executor_whose_workers_have_gpus_without_names_is_restarted(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "submit b unprofiled\nwish b t4-000:1\ngo\nruns b\n? sent assign b 1xt4")
    store_earlier(world.settings.store_path, world.job("a"))
    world.play("reopen a b\n? sent restart a\ngo\n? sent\nrestarted a\ngo\n? sent assign a 2xt4")
    assert [slot.devices for slot in world.job("a").held] == [(0,), (1,)]
    assert [slot.devices for slot in world.job("b").held] == [(2,)]
    world.play("runs a\nreopen a b\n? sent")


def test_a_restart_of_the_service_changes_nobodys_gpus(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "submit b unprofiled\nwish b t4-000:2\ngo\nruns b\nwish a\ngo\nleft a\nwish b t4-000:2")
    before = world.job("b").held
    assert [slot.devices for slot in before] == [(2,), (3,)]
    world.play("reopen a b\ngo\n? b running")
    assert world.job("b").held == before
