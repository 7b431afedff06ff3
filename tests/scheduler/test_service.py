"""The loop of the service goes on, whatever one of its cycles meets."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.scheduler.clock import SystemClock
from coadapt.scheduler.service import SchedulerService
from coadapt.scheduler.store import Store


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
