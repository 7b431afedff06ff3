"""The service goes on whatever one of its cycles meets, and says nothing of nodes before it knows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.policies.catalogue import make_policy
from coadapt.scheduler.clock import SystemClock
from coadapt.scheduler.service import SchedulerService
from coadapt.scheduler.store import Store

from tests.support.cycles import World


def failing() -> None:
    raise ArithmeticError("no")


@pytest.mark.parametrize("writable", [True, False])
def test_an_error_of_a_cycle_is_logged_and_ends_no_loop_even_if_the_store_takes_no_line(
    writable: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service, store = SchedulerService.__new__(SchedulerService), Store(tmp_path / "jobs.sqlite")
    service._store, service._clock = store, SystemClock()
    if not writable:
        store.close()
    assert service._guard(failing) is False
    assert "ArithmeticError: no" in caplog.text
    if writable:
        assert [event.data["text"] for event in store.cluster_events()] == ["ArithmeticError: no"]


def test_no_job_is_said_to_lack_a_gpu_type_before_the_nodes_are_known(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:2")
    world.play("unready\nsubmit a")
    service = SchedulerService.__new__(SchedulerService)
    service._store, service._nodes, service._cycle, service._policy = (
        world.store,
        world.nodes,
        world.cycle,
        make_policy("fifo"),
    )
    service._compiling = False
    (row,) = service.list()
    found = service.explain(row["id"])
    assert (row["wait_reason"], found["reason"]) == ("next_round", "next_round")
    assert found["lines"] == ["a-1 is waiting: it takes part in the next round"]
