"""Promises of how many nodes are awake: those of the published algorithm, and what an operator grants."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.node_demand import HORIZONS, PEAKS, NodeForecast
from coadapt.policies.sleeping.counts import (
    PUBLISHED,
    VANILLA,
    PeakRule,
    RecentRule,
    Seen,
    TrendRule,
    arrival_check,
    periodic_check,
    wakes_left,
)
from hypothesis import given
from hypothesis import strategies as st

DAY = 86_400.0


def foreseen(running: float, mean: float, peak: float | None = None) -> NodeForecast:
    high = max(running, mean) if peak is None else peak
    return NodeForecast(running, running, np.full(len(HORIZONS), mean), dict.fromkeys(PEAKS, high))


def seen(*running: float, forecast: NodeForecast | None = None, total: int = 110, since: float = 99) -> Seen:
    return Seen(np.array(running, float), total, forecast, since)


def test_nodes_wake_at_once_for_jobs_that_do_not_fit() -> None:
    assert arrival_check(100, 104, 5, 420) == 109
    assert arrival_check(104, 104, 5, 420) == 104
    assert arrival_check(100, 104, 50, 110) == 110


def test_both_trends_must_fall_before_nodes_sleep() -> None:
    rule = TrendRule(buffer=5, history=3, future=18, least_drop_seen=1, least_drop_foreseen=1)
    falls = (90.0, 88.0, 86.0, 80.0)
    assert rule.slept(seen(*falls, forecast=foreseen(80, 70)), 100) == 85
    assert rule.slept(seen(*falls, forecast=foreseen(80, 80)), 100) == 100
    assert rule.slept(seen(80, 80, 80, 80, forecast=foreseen(80, 70)), 100) == 100
    assert rule.slept(seen(*falls), 100) == 100


def test_nobody_sleeps_soon_after_a_wake_up_or_for_too_little() -> None:
    rule = TrendRule(5, 3, 18, 1, 1, least_decrease=10, hold=12)
    falls, forecast = (90.0, 88.0, 86.0, 80.0), foreseen(80, 70)
    assert rule.slept(seen(*falls, forecast=forecast, since=11), 100) == 100
    assert rule.slept(seen(*falls, forecast=forecast, since=12), 100) == 85
    assert rule.slept(seen(*falls, forecast=forecast), 94) == 94


def test_no_more_sleep_than_run_and_no_more_wake_than_there_are() -> None:
    assert periodic_check(100, 80, 5, may=True) == 85
    assert periodic_check(82, 80, 5, may=True) == 82
    assert periodic_check(100, 80, 5, may=False) == 100


@given(st.lists(st.integers(0, 50), min_size=30, max_size=40), st.integers(0, 60), st.integers(0, 50))
def test_no_rule_ever_leaves_fewer_awake_than_run(counts: list[int], more: int, awake: int) -> None:
    running = np.array(counts, float)
    now = Seen(running, 50, foreseen(running[-1], running.mean(), float(running.max())), 99, 1.0)
    awake = max(awake, now.now)
    for rule in (*PUBLISHED.values(), VANILLA, RecentRule(6, 2), PeakRule()):
        assert now.now <= min(rule.slept(now, awake), awake) <= awake
        assert rule.woken(now, awake, min(awake + more, 50)) <= 50
        assert rule.woken(now, awake, min(awake + more, 50)) >= min(awake + more, 50)


def test_a_rule_without_forecast_keeps_what_was_needed_lately() -> None:
    assert RecentRule(3, 2).slept(seen(90, 60, 70, 50), 100) == 72
    assert VANILLA.slept(seen(90, 60, 70, 50), 100) == 50


def test_our_rule_keeps_what_may_be_needed_and_wakes_for_it_too() -> None:
    rule = PeakRule(buffer=2)
    high = foreseen(50, 50, peak=71.2)
    assert rule.slept(seen(90, 50, forecast=high), 100) == 74
    assert rule.woken(seen(90, 50, forecast=high), 40, 52) == 74
    assert rule.slept(seen(90, 50), 100) == 92  # nothing is foreseen yet: what a day needed stays awake


def test_the_fewer_wake_ups_are_left_the_surer_nodes_are_kept() -> None:
    peaks = {key: 50.0 + 10 * key[0] / 18 + 100 * (key[1] - 0.7) for key in PEAKS}
    forecast = NodeForecast(50, 50, np.full(len(HORIZONS), 50.0), peaks)
    kept = [PeakRule().slept(Seen(np.full(9, 50.0), 200, forecast, 99, left), 200) for left in (0.2, 1.2, 2.0)]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > kept[1] > kept[2]


def test_wake_ups_are_granted_by_the_day_and_saved_up_to_two() -> None:
    assert wakes_left(0.5, 0.0, [], 0.0) == 1.0
    assert wakes_left(0.5, 0.0, [], 2 * DAY) == 2.0
    assert wakes_left(0.5, 0.0, [], 20 * DAY) == 2.0
    assert wakes_left(0.5, 0.0, [20 * DAY], 20 * DAY) == 1.0
    assert wakes_left(0.5, 0.0, [0.0, 1.0], 2 * DAY) == pytest.approx(0.0, abs=1e-3)
