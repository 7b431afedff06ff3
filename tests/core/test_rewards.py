"""What ending by when is worth: the steps, and those that are refused (spec, check B6)."""

from __future__ import annotations

import math

import pytest
from coadapt.core.rewards import Rewards

MIN_S = 60.0


def test_a_strict_deadline_is_worth_all_until_its_moment_and_nothing_after() -> None:
    rewards = Rewards.strict(100 * MIN_S)
    assert [rewards.at(minutes * MIN_S) for minutes in (0, 100, 101)] == [100, 100, 0]
    assert (rewards.next_s(100 * MIN_S), rewards.next_s(101 * MIN_S)) == (100 * MIN_S, math.inf)


def test_a_soft_deadline_falls_in_four_steps() -> None:
    rewards = Rewards.soft(100 * MIN_S)
    worth = {minutes: rewards.at(minutes * MIN_S) for minutes in (100, 101, 110, 120, 150, 151)}
    assert worth == {100: 100, 101: 80, 110: 80, 120: 50, 150: 20, 151: 0}
    assert rewards.next_s(115 * MIN_S) == pytest.approx(120 * MIN_S)
    assert rewards.last_s == 150 * MIN_S


def test_the_clock_of_a_simulation_may_be_off_by_its_resolution() -> None:
    assert Rewards.strict(0.3).at(0.1 + 0.2) == 100


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([], "0 deadlines and 0 worths"),
        ([(0.0, 5.0)], "a deadline of 0 s is not after submission"),
        ([(math.nan, 5.0)], "is not after submission"),
        ([(math.inf, 5.0)], "a deadline of inf s is not accepted; it must be finite"),
        ([(60.0, 0.0)], "a worth of 0 is not accepted; it must be above 0"),
        ([(60.0, -1.0)], "a worth of -1 is not accepted"),
        ([(7200.0, 9.0), (3600.0, 5.0)], "a deadline of 60 min follows 2 h; deadlines must rise"),
        ([(60.0, 5.0), (120.0, 5.0)], "a worth of 5 follows 5; worth must fall"),
    ],
)
def test_other_steps_are_refused_in_one_sentence(steps: list[tuple[float, float]], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Rewards.of(steps)


def test_as_many_worths_as_deadlines_are_needed() -> None:
    with pytest.raises(ValueError, match="2 deadlines and 1 worths; as many of both are accepted"):
        Rewards((1.0, 2.0), (3.0,))
