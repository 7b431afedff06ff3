"""Use of GPUs adds up: over GPUs, over time, and in any order. What is unknown is never 0."""

from __future__ import annotations

import json
import math
from functools import reduce

import pytest
from coadapt.core.usage import (
    NO_USAGE,
    RECENT_S,
    IdleMinutes,
    Mean,
    Usage,
    UsageOn,
    idle_gpu_minutes,
    is_notably_idle,
)
from hypothesis import given
from hypothesis import strategies as st

PARTS = st.floats(0.0, 1.0)
SECONDS = st.floats(0.01, 1e6)


@st.composite
def samples(draw: st.DrawFn) -> Usage:
    seconds = draw(SECONDS)
    values = [draw(st.none() | st.floats(0.0, top)) for top in (1.0, 1.0, 80.0)]
    idle_s = seconds if draw(st.booleans()) else 0.0
    return Usage(seconds, *(Mean.of(value, seconds) for value in values), idle_s, draw(st.booleans()))


def figures(usage: Usage) -> list[float | None]:
    return [usage.gpu_util, usage.memory_util, usage.memory_gib, usage.seconds, usage.idle_gpu_minutes]


def close(one: Usage, other: Usage) -> bool:
    return one.emulated == other.emulated and all(
        (a is None and b is None) or (a is not None and b is not None and math.isclose(a, b, abs_tol=1e-9))
        for a, b in zip(figures(one), figures(other), strict=True)
    )


@given(st.lists(samples(), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_in_which_samples_are_joined_does_not_matter(found: list[Usage], random: object) -> None:
    whole = reduce(Usage.__add__, found)
    mixed = list(found)
    random.shuffle(mixed)
    half = len(mixed) // 2
    joined = reduce(Usage.__add__, mixed[:half], NO_USAGE) + reduce(Usage.__add__, mixed[half:], NO_USAGE)
    assert close(whole, joined)


@given(st.lists(st.tuples(PARTS, SECONDS), min_size=1, max_size=6))
def test_a_joined_mean_is_weighted_by_time(parts: list[tuple[float, float]]) -> None:
    joined = reduce(Usage.__add__, [Usage(s, gpu=Mean.of(part, s)) for part, s in parts])
    expected = sum(part * s for part, s in parts) / sum(s for _, s in parts)
    assert joined.gpu_util == pytest.approx(expected)


@given(samples())
def test_what_is_joined_with_nothing_stays(usage: Usage) -> None:
    assert usage + NO_USAGE == usage == NO_USAGE + usage


def test_what_nobody_knows_is_unknown_and_changes_no_mean() -> None:
    unknown = Usage(100.0)
    assert (unknown.gpu_util, unknown.memory_util, unknown.memory_gib) == (None, None, None)
    known = Usage(10.0, gpu=Mean.of(0.5, 10.0))
    assert (known + unknown).gpu_util == 0.5
    assert (known + unknown).seconds == 110.0


def test_recent_use_follows_a_change_that_the_mean_hardly_shows() -> None:
    use, now = UsageOn(), 0.0
    for util in [0.0] * 100 + [1.0] * 10:
        now += 30.0
        use = use.with_more(Usage(30.0, gpu=Mean.of(util, 30.0)), now)
    assert use.mean.gpu_util == pytest.approx(1 / 11)
    assert use.recent.gpu_util is not None
    assert use.recent.gpu_util > 0.95
    assert use.at_s == now


def test_a_minute_ago_counts_half() -> None:
    before = UsageOn().with_more(Usage(10.0, gpu=Mean.of(0.0, 10.0)), 1000.0)
    after = before.with_more(Usage(10.0, gpu=Mean.of(0.9, 10.0)), 1000.0 + RECENT_S)
    assert after.recent.gpu_util == pytest.approx(0.6)
    turned_back = before.with_more(Usage(10.0, gpu=Mean.of(0.9, 10.0)), 900.0)  # a clock that was set back
    assert turned_back.recent.gpu_util == pytest.approx(0.45)


@given(samples(), samples())
def test_use_survives_being_written(first: Usage, second: Usage) -> None:
    use = UsageOn().with_more(first, 5.0).with_more(second, 35.0)
    assert UsageOn.from_row(json.loads(json.dumps(use.to_row()))) == use


def test_a_gpu_is_idle_in_whole_minutes_only() -> None:
    idle = IdleMinutes()
    assert [idle.add(0.0, 1.0) for _ in range(59)] == [0.0] * 59
    assert idle.add(0.0, 1.0) == 60.0
    # A second of work in a minute is 1.7 %; four are more than 5 %.
    assert sum(idle.add(float(second == 30), 1.0) for second in range(60)) == 60.0
    assert sum(idle.add(float(second < 4), 1.0) for second in range(60)) == 0.0


@given(st.lists(st.tuples(st.none() | PARTS, st.floats(0.5, 20.0)), max_size=200))
def test_idle_time_is_never_more_than_the_time_that_was_known(found: list[tuple[float | None, float]]) -> None:
    idle = IdleMinutes()
    idle_s = sum(idle.add(util, seconds) for util, seconds in found)
    assert 0 <= idle_s <= sum(seconds for util, seconds in found if util is not None) + 1e-6
    if all(util is None or util >= 0.05 for util, _ in found):
        assert idle_s == 0


def test_of_a_shared_gpu_only_the_share_is_idle() -> None:
    half = IdleMinutes(share=0.5)
    assert sum(half.add(0.02, 1.0) for _ in range(60)) == 30.0
    assert sum(half.add(0.03, 1.0) for _ in range(60)) == 0.0  # 6 % of what it holds


def held(minutes: float, idle_minutes: float) -> UsageOn:
    seconds = 60 * minutes
    return UsageOn(Usage(seconds, gpu=Mean.of(0.5, seconds), idle_s=60 * idle_minutes))


def test_idleness_is_notable_if_it_is_long_and_no_small_part() -> None:
    assert not is_notably_idle([])
    assert not is_notably_idle([held(9, 9)])
    assert is_notably_idle([held(10, 10)])
    assert is_notably_idle([held(20, 5), held(30, 5)])
    assert not is_notably_idle([held(10_000, 20)])


def test_idle_minutes_are_unknown_where_utilisation_is() -> None:
    assert idle_gpu_minutes([]) is None
    assert idle_gpu_minutes([UsageOn(Usage(100.0))]) is None
    assert idle_gpu_minutes([UsageOn(Usage(100.0)), held(3, 2), held(3, 0)]) == 2
