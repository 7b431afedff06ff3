"""What teams asked for in a window: the truth of a trace, and the most of the last windows."""

from __future__ import annotations

import math

import pytest
from coadapt.estimators.new_load import TeamArrivals, by_team

ARRIVALS = TeamArrivals.of([10.0, 20.0, 20.0, 60.0], [1, 2, 4, 8])


@pytest.mark.parametrize(
    ("now", "until", "gpus"), [(0, 10, 0), (0, 10.5, 1), (10, 20.5, 6), (20, 60, 0), (20, 61, 8), (70, 60, 0)]
)
def test_a_window_is_open_at_both_ends(now: float, until: float, gpus: float) -> None:
    assert ARRIVALS.after(now, until) == gpus


def test_an_estimate_is_the_most_of_the_last_windows_and_unknown_before_the_first_job() -> None:
    assert ARRIVALS.estimate(9.0, 10.0) == math.inf
    assert ARRIVALS.estimate(20.0, 10.0) == 6.0
    assert ARRIVALS.estimate(60.0, 10.0) == 8.0
    assert ARRIVALS.estimate(59.0, 10.0, recent=2) == 0.0


def test_nothing_that_comes_later_changes_an_estimate() -> None:
    later = TeamArrivals.of([10.0, 20.0, 20.0, 40.0, 41.0], [1, 2, 4, 100, 100])
    for now in range(40):
        for window_s in (5.0, 12.0):
            assert later.estimate(now, window_s) == ARRIVALS.estimate(now, window_s)


def test_each_team_has_its_own() -> None:
    found = by_team([1.0, 2.0, 3.0], [1, 1, 4], ["b", "a", "b"])
    assert list(found) == ["a", "b"]
    assert found["b"].after(0.0, 9.0) == 5.0


def test_old_submissions_are_dropped_and_late_ones_count_as_of_the_newest() -> None:
    arrivals = TeamArrivals.of([10.0, 20.0], [1, 2])
    arrivals.forget(15.0)
    arrivals.add(18.0, 4)
    assert arrivals.times_s == [20.0, 20.0]
    assert arrivals.after(0.0, 30.0) == 6.0
