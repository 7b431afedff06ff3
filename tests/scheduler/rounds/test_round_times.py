"""Rounds come in their interval, soon after somebody asked, and when the policy wants to be asked again."""

from __future__ import annotations

import pytest
from coadapt.core.settings import Settings
from coadapt.scheduler.rounds.round_times import RoundTimes

SETTINGS = Settings(round_interval_s=60.0, debounce_s=0.5, node_refresh_s=1.0)


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return 0.0

    def steady_s(self) -> float:
        return 1e9 + self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_first_round_comes_at_once_and_the_next_after_the_interval(clock: Clock) -> None:
    times = RoundTimes(clock, SETTINGS)
    assert times.due
    times.begin()
    assert not times.due
    clock.now_s += 59.9
    assert not times.due
    clock.now_s += 0.2
    assert times.due


def test_who_asks_has_a_round_after_the_debounce_time_and_shares_it_with_others(clock: Clock) -> None:
    times = RoundTimes(clock, SETTINGS)
    times.begin()
    assert times.idle_s == 1.0
    times.ask()
    clock.now_s += 0.3
    times.ask()
    assert not times.due
    assert times.idle_s == pytest.approx(0.2)
    clock.now_s += 0.2
    assert times.due


def test_a_policy_is_asked_again_when_it_wished_and_not_for_a_time_that_is_over(clock: Clock) -> None:
    times = RoundTimes(clock, SETTINGS)
    times.begin()
    times.ask_again(clock.steady_s() - 1.0, clock.steady_s())
    assert not times.due
    times.ask_again(clock.steady_s() + 10.0, clock.steady_s())
    clock.now_s += 9.9
    assert not times.due
    clock.now_s += 0.1
    assert times.due
    times.begin()
    assert not times.due


def test_rounds_that_take_long_leave_time_for_all_else(clock: Clock) -> None:
    times = RoundTimes(clock, SETTINGS)
    times.begin()
    clock.now_s += 2.0
    times.ask()
    times.end()
    clock.now_s += 7.9
    assert not times.due
    assert 0.0 < times.idle_s < 0.2
    clock.now_s += 0.2
    assert times.due


def test_a_long_round_delays_none_that_is_due_by_its_interval(clock: Clock) -> None:
    times = RoundTimes(clock, SETTINGS)
    times.begin()
    clock.now_s += 30.0
    times.end()
    clock.now_s += 30.1
    assert times.due
