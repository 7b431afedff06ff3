"""What an executor knew when it held nothing, the next one knows: errors count on, and the pause is measured."""

from __future__ import annotations

import json

import pytest
from coadapt.core.job import RestartPolicy
from coadapt.executor.outlets import put_away, taken_out
from coadapt.executor.protocol.job_events import JobFailed, Running
from coadapt.executor.reconciling.failures import FRUITLESS_LOSSES, FailureBudget

from tests.support.simulated_workers import World, slot

A, B = slot("n1"), slot("n2")


def next_executor(before: World, *, away_s: float) -> World:
    """Return the executor that is made `away_s` after the last one was ended."""
    kept = json.loads(json.dumps(before.machine.kept(before.now)))
    after = World()
    after.machine.go_on({**kept, "paused_s": None if kept["paused_s"] is None else kept["paused_s"] + away_s}, 0.0)
    return after


def test_errors_of_the_script_count_on() -> None:
    first = World()
    for fault in ("ValueError: one", "ValueError: two", "ValueError: three"):
        first.assign(A)
        first.run(60)
        first.crash(first.worker_in(A), fault)
        first.assign()
        first.run(60)
    assert not first.of(JobFailed)
    second = next_executor(first, away_s=100.0)
    second.assign(A)
    second.run(60)
    second.crash(second.worker_in(A), "ValueError: four")
    second.run(60)
    (failed,) = second.of(JobFailed)
    assert failed.tries == 4


def test_the_same_error_on_both_sides_ends_the_job() -> None:
    first = World()
    first.assign(A)
    first.run(60)
    first.crash(first.worker_in(A), "ValueError: one")
    first.assign()
    first.run(60)
    second = next_executor(first, away_s=100.0)
    second.assign(A)
    second.run(1)
    second.run(20)
    second.crash(second.worker_in(A), "ValueError: one")
    second.run(60)
    assert len(second.of(JobFailed)) == 1


def test_the_time_without_training_goes_on() -> None:
    first = World()
    first.assign(A)
    first.run(60)
    first.assign()
    first.run(60)
    stopped_s = first.machine.kept(first.now)["paused_s"]
    second = next_executor(first, away_s=100.0)
    second.assign(B)
    second.run(60)
    (running,) = second.of(Running)
    assert running.pause_s == pytest.approx(stopped_s + 100.0, abs=30.0)
    assert running.generation == 1


def test_a_job_that_has_never_trained_has_no_pause() -> None:
    second = next_executor(World(), away_s=100.0)
    second.assign(A)
    second.run(60)
    assert second.of(Running)[0].pause_s is None


def test_counts_of_losses_and_outages_go_on() -> None:
    one = FailureBudget(3, RestartPolicy.ON_FAILURE)
    for _ in range(FRUITLESS_LOSSES):
        assert not one.loss(5, 0)
    one.outage(5)
    other = FailureBudget(3, RestartPolicy.ON_FAILURE)
    other.go_on(json.loads(json.dumps(one.to_row())))
    assert other == one
    assert other.loss(5, 0), "one loss too many, over both executors"
    assert FailureBudget(3).to_row() == FailureBudget(9).to_row()


def test_what_is_kept_ages_by_the_wall_clock_and_not_over_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.0)
    kept = put_away({"paused_s": 5.0})
    monkeypatch.setattr("time.time", lambda: 1060.0)
    assert taken_out(kept, restarted=False)["paused_s"] == 65.0
    assert taken_out(kept, restarted=True)["paused_s"] is None
    monkeypatch.setattr("time.time", lambda: 900.0)
    assert taken_out(kept, restarted=False)["paused_s"] == 5.0, "the clock was set back"
    assert taken_out({}, restarted=False) == {"paused_s": None}
