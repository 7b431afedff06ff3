"""What the demo of deadlines has to see, by looks at its two jobs."""

from __future__ import annotations

from typing import Any

from examples.demo_deadlines.story import MONDAY, SWEEP, WITHIN_S, Seen

WAITS = "It waits, as monday-2 must run now for its deadline."


def row(phase: str, gpus: int, finished_s: float | None = None) -> Any:
    return {"phase": phase, "gpus": gpus, "submitted_s": 100.0, "finished_s": finished_s}


def seen(ended_s: float = 200.0) -> Seen:
    found = Seen()
    found.rows(row("running", 2), None, "", [])
    found.rows(row("running", 2), row("profiling", 0), "measured first: the answer comes in about 20 s", [])
    found.rows(row("running", 2), row("queued", 0), "on time, expected end 13:12 ± 9 s", [])
    found.rows(row("running", 2), row("queued", 0), "on time, expected end 13:13 ± 9 s", [])
    found.rows(row("queued", 0), row("running", 2), "on time, expected end 13:13 ± 9 s", ["It had 2xt4.", WAITS])
    found.rows(row("queued", 0), row("succeeded", 0, ended_s), "", [])
    assert not found.over
    found.rows(row("running", 2), row("succeeded", 0, ended_s), "", [])
    assert found.over
    return found


def test_all_is_seen_of_a_deadline_that_is_met_as_best_effort_waited() -> None:
    found = seen()
    assert [promise.seen for promise in found.promises()] == [
        "on time, expected end 13:12 ± 9 s",
        "sweep ran",
        WAITS,
        f"100 of {WITHIN_S:.0f} s",
        "sweep runs again",
    ]
    assert len(found.told) == 2, "an answer that stays the same is told once"


def test_what_did_not_happen_is_not_seen() -> None:
    assert [promise.seen for promise in seen(100.0 + WITHIN_S + 1).promises()][3] is None
    assert not any(promise.seen for promise in Seen().promises())


def test_only_one_of_the_jobs_has_a_deadline_and_both_need_all_gpus() -> None:
    assert SWEEP.deadline is None
    assert MONDAY.deadline is not None
    assert SWEEP.resources.gpus == MONDAY.resources.gpus == 2
