"""Jobs that share time have turns of a window, and rest as long after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from coadapt.policies.choosing.time_shares import TimeShares
from coadapt.policies.contract.round import JobView

from tests.support.rounds import job, on

RUNS = on("a", n0=1)


def views(placed: str, ids: str = "xy", age_s: float = 0.0) -> list[JobView]:
    """Return jobs, of which those in `placed` hold GPUs."""
    return [replace(job(id, age_s=age_s), placement=RUNS if id in placed else None) for id in ids]


def told(shares: TimeShares, rounds: Sequence[tuple[float, str]], ids: str = "xy") -> dict[str, float]:
    """Return the factors of the last of some rounds of (time, jobs that hold GPUs)."""
    for now, placed in rounds:
        found = shares.factors(views(placed, ids), now)
    return dict(zip(ids, found.tolist(), strict=True))


def test_a_job_rests_once_it_had_a_whole_window() -> None:
    shares = TimeShares(120.0)
    assert told(shares, [(0.0, ""), (60.0, "x")])["x"] == 4.0
    assert told(shares, [(120.0, "x")])["x"] == 1.0
    assert set(shares.resting) == {"x"}


def test_it_may_have_its_next_turn_after_a_rest_as_long() -> None:
    shares = TimeShares(120.0)
    told(shares, [(0.0, ""), (60.0, "x"), (120.0, "x"), (180.0, "y")])
    assert set(shares.resting) == {"x"}
    assert told(shares, [(240.0, "y")])["x"] > 1.0
    assert set(shares.resting) == {"y"}


def test_rounds_out_of_turn_count_for_as_long_as_they_are() -> None:
    shares = TimeShares(120.0)
    times = [0.0, 1.0, 2.0, 60.0, 119.0]
    told(shares, [(now, "x" if now else "") for now in times])
    assert not shares.resting
    told(shares, [(120.0, "x")])
    assert set(shares.resting) == {"x"}


def test_time_served_before_the_window_is_forgotten() -> None:
    shares = TimeShares(120.0)
    found = told(shares, [(0.0, ""), (60.0, "x"), (120.0, ""), (150.0, "")])
    assert found["x"] == pytest.approx(1.0 + 1.0 - 30.0 / 120.0 + 90.0 / 1200.0)
    assert told(shares, [(200.0, "")])["x"] == pytest.approx(1.0 + 1.0 + 140.0 / 1200.0)


def test_who_waits_longer_weighs_more_and_never_as_much_as_who_runs() -> None:
    shares = TimeShares(100.0)
    waits = [*views("", "a", 10.0), *views("", "b", 500.0), *views("", "c", 10**6), *views("d", "d")]
    a, b, c, d = shares.factors(waits, 0.0)
    assert a < b < c < d


def test_jobs_that_are_gone_are_forgotten() -> None:
    shares = TimeShares(60.0)
    told(shares, [(0.0, ""), (60.0, "x")])
    assert set(shares.resting) == {"x"}
    told(shares, [(90.0, "")], ids="y")
    assert not shares.resting
