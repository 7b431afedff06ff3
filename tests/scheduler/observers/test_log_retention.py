"""Logs of ended jobs are kept as long as age and size allow; the oldest go first, those of active jobs never."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.job import JobSpec, Phase
from coadapt.core.settings import Settings
from coadapt.executor.files.job_log import JobLog
from coadapt.scheduler.changes.reactions import end
from coadapt.scheduler.observers.log_retention import DAY_S, EndedLog, LogRetention, ended_logs, to_remove
from coadapt.scheduler.store.store import Store

from tests.support.cycles import ManualClock

LOGS = [EndedLog("old", 10, 9 * DAY_S), EndedLog("middle", 20, 5 * DAY_S), EndedLog("new", 30, 1 * DAY_S)]


@pytest.mark.parametrize(
    ("most_days", "most_bytes", "removed"),
    [
        (10, 100, []),
        (9, 60, []),
        (8, 100, ["old"]),
        (10, 59, ["old"]),
        (10, 50, ["old"]),
        (10, 49, ["middle", "old"]),
        (10, 0, ["middle", "new", "old"]),
        (2, 29, ["middle", "new", "old"]),
        (2, 30, ["middle", "old"]),
    ],
)
def test_what_is_too_old_goes_and_then_the_oldest_until_the_rest_fits(
    most_days: float, most_bytes: int, removed: list[str]
) -> None:
    assert sorted(to_remove(LOGS, most_days * DAY_S, most_bytes)) == removed
    assert to_remove(LOGS[::-1], most_days * DAY_S, most_bytes) == to_remove(LOGS, most_days * DAY_S, most_bytes)


def test_each_says_why() -> None:
    assert to_remove(LOGS, 8 * DAY_S, 30) == {
        "old": "it is older than 8 days",
        "middle": "logs of ended jobs take more than 2.79397e-08 GiB",
    }
    assert to_remove([], 1.0, 0) == {}


def test_a_sweep_removes_logs_of_ended_jobs_alone_and_tells_it(tmp_path: Path) -> None:
    settings = Settings(state_dir=str(tmp_path), log_keep_days=10.0)
    store, clock = Store(settings.store_path), ManualClock()
    spec = JobSpec(name="j", script="t.py")
    jobs = [store.submit(spec, clock.wall_s(), idempotency_key=key)[0].id for key in "abc"]
    for name in [*jobs, "unknown"]:
        JobLog(str(settings.log_dir(name))).write("rank-0", "line\n")
    for name, days in zip([*jobs, "unknown"], (11, 11, 9, 11), strict=True):
        for path in settings.log_dir(name).iterdir():
            os.utime(path, (clock.wall_s() - days * DAY_S,) * 2)
    for name in jobs[1:]:
        over = end(store.get(name), Phase.CANCELLED, "cancelled by the user", clock.wall_s()).job
        store.save(replace(over, retired=True))
    LogRetention(store, settings, clock).sweep()
    assert sorted(path.name for path in settings.log_dir("x").parent.iterdir()) == sorted([jobs[0], jobs[2]])
    assert store.events(jobs[1])[-1].data["text"] == "its log was removed: it is older than 10 days"
    store.close()


def test_what_cannot_be_removed_stays_and_harms_nothing(tmp_path: Path) -> None:
    settings = Settings(state_dir=str(tmp_path), log_keep_gib=1e-9)
    store, clock = Store(settings.store_path), ManualClock()
    for name in ("a", "b"):
        JobLog(str(settings.log_dir(name))).write("rank-0", "line\n")
    asked: list[str] = []

    def fails(path: Path) -> None:
        asked.append(path.name)
        raise PermissionError("no")

    LogRetention(store, settings, clock).sweep(fails)
    assert sorted(asked) == ["a", "b"]
    store.close()


def test_a_folder_that_is_not_there_holds_no_logs(tmp_path: Path) -> None:
    assert ended_logs(tmp_path / "logs", (), 0.0) == []
