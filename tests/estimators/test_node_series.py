"""Promises: counts by ten-minute maxima are what was counted, and where nobody counted nothing is made up."""

from __future__ import annotations

import json

import numpy as np
import pytest
from coadapt.estimators.node_series import NodeCounter, NodeSeries, series_of_samples

MINUTE = 60.0


def minutes(count: int, start: float = 0.0) -> list[float]:
    return [start + MINUTE * i for i in range(count)]


def test_a_slot_has_the_most_that_ran_within_its_ten_minutes() -> None:
    found = series_of_samples(minutes(20), [*range(10), *[3] * 10], [50] * 20)
    assert found.running.tolist() == [9, 3]
    assert found.total.tolist() == [50, 50]


def test_minutes_of_0_where_a_monitor_was_away_are_no_idle_cluster() -> None:
    running = [40] * 10 + [0] * 20 + [41] * 10
    found = series_of_samples(minutes(40), running, [50] * 40)
    assert found.known.tolist() == [True, False, False, True]
    assert found.filled.tolist() == [40, 40, 40, 41]


def test_a_small_cluster_may_fall_idle() -> None:
    found = series_of_samples(minutes(30), [1] * 10 + [0] * 20, [50] * 30)
    assert found.known.all()
    assert found.running.tolist() == [1, 0, 0]
    fell = series_of_samples(minutes(30), [40] * 10 + [0] * 20, [50] * 30, away_at_zero=False)
    assert fell.running.tolist() == [40, 0, 0]


def test_holes_are_unknown() -> None:
    found = series_of_samples([*minutes(10), *minutes(10, 1800.0)], [5] * 20, [9] * 20)
    assert found.known.tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("at", "running", "total", "sentence"),
    [
        ([0.0, 120.0, 60.0], [1, 1, 1], [2, 2, 2], "sample 2 is not after sample 1"),
        ([0.0, 60.0], [1, 3], [2, 2], "sample 1: 3 running of 2 is not accepted"),
        ([0.0, 60.0], [1, -1], [2, 2], "sample 1: -1 running of 2 is not accepted"),
        ([0.0, float("nan")], [1, 1], [2, 2], "NaN or infinity is not accepted"),
        ([], [], [], "at least one"),
    ],
)
def test_a_series_that_cannot_be_is_refused(
    at: list[float], running: list[int], total: list[int], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        series_of_samples(at, running, total)


def test_counts_in_a_series_are_within_all_nodes() -> None:
    with pytest.raises(ValueError, match="slot 0: 3 running of 2"):
        NodeSeries(0.0, np.array([3]), np.array([2]), np.array([True]))


def test_what_had_ended_by_a_moment_is_all_that_is_seen() -> None:
    series = series_of_samples(minutes(30), [*range(30)], [50] * 30)
    assert len(series.until(1199.0)) == 1
    assert len(series.until(1200.0)) == 2
    assert len(series.until(-5.0)) == 0


def test_a_counter_keeps_what_was_counted_live() -> None:
    counter = NodeCounter(most_slots=100)
    for moment, running in ((0.0, 1), (300.0, 4), (599.0, 2), (600.0, 0), (2400.0, 3)):
        counter.note(moment, running, 8)
    found = counter.series()
    assert found.known.tolist() == [True, True, False, False, True]
    assert found.running[found.known].tolist() == [4, 0, 3]  # a cluster that counts itself may fall idle


def test_a_counter_keeps_the_newest_and_begins_anew_after_a_long_hole() -> None:
    counter = NodeCounter(most_slots=16)
    for slot in range(100):
        counter.note(600.0 * slot, slot, 200)
    found = counter.series()
    assert found.end_s == 60_000.0
    assert 16 <= len(found) <= 18
    assert found.running[-1] == 99
    counter.note(600.0 * 1000, 5, 200)
    assert counter.series().start_s == 600_000.0


def test_a_counter_refuses_what_is_late_or_cannot_be() -> None:
    counter = NodeCounter(most_slots=16)
    counter.note(600.0, 1, 2)
    with pytest.raises(ValueError, match="must be 600"):
        counter.note(599.0, 1, 2)
    with pytest.raises(ValueError, match="3 running of 2"):
        counter.note(700.0, 3, 2)


def test_counts_outlive_a_restart() -> None:
    counter = NodeCounter(most_slots=100)
    for moment, running in ((0.0, 1), (300.0, 4), (2400.0, 3)):
        counter.note(moment, running, 8)
    again = NodeCounter.read(json.loads(json.dumps(counter.to_json())), 100)
    assert again.to_json() == counter.to_json()
    again.note(2400.0, 8, 8)
    assert again.series(last=1).running.tolist() == [8]
    for bad in ({}, {"first": 0, "running": [1], "total": []}, {"first": 0, "running": ["x"], "total": [1]}):
        with pytest.raises(ValueError, match="node counts: are no such counts"):
            NodeCounter.read(bad, 100)
