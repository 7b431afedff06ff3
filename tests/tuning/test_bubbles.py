"""How trials are spread over whole GPUs and the bubbles of pipelines."""

from __future__ import annotations

import pytest
from coadapt.tuning.bubbles import Place, by_rate
from coadapt.tuning.planner import EpochTime, GroupMemory
from hypothesis import given
from hypothesis import strategies as st

TIME, MEMORY = EpochTime(6.0, 0.5), GroupMemory(2.0, 2.5, 40.0)
PLACES = st.lists(
    st.builds(Place, st.just("stage"), st.floats(0.02, 1.0), st.floats(0.0, 40.0)), min_size=1, max_size=8
)


def test_a_bubble_gets_fewer_trials_than_a_whole_gpu() -> None:
    whole, bubble = by_rate(60, [Place(), Place("0.0", rate=0.5)], TIME, MEMORY, 1000)
    assert (whole, bubble) == (44, 16)
    assert TIME.of(bubble) / 0.5 == TIME.of(whole)


def test_the_size_of_a_group_differs_by_what_stages_leave_of_their_memory() -> None:
    stages = [Place(f"0.{stage}", 0.2, gib) for stage, gib in enumerate((1.0, 4.0, 8.0, 16.0))]
    assert by_rate(1000, stages, TIME, MEMORY, 1000) == [0, 4, 12, 27]


def test_a_slow_bubble_stays_empty_where_others_are_done_before_it_would_have_trained_one() -> None:
    assert by_rate(10, [Place(), Place("0.0", rate=0.1)], TIME, MEMORY, 1000) == [10, 0]


@given(st.integers(0, 200), PLACES)
def test_nobody_is_given_twice_and_nothing_exceeds_a_memory(trials: int, places: list[Place]) -> None:
    sizes = by_rate(trials, places, TIME, MEMORY, 64)
    room = [place.most(MEMORY, 64) for place in places]
    assert all(0 <= size <= most for size, most in zip(sizes, room, strict=True))
    assert sum(sizes) == min(trials, sum(room))


@given(st.integers(1, 60), PLACES)
def test_no_place_could_give_a_trial_to_another_and_all_be_done_sooner(trials: int, places: list[Place]) -> None:
    sizes = by_rate(trials, places, TIME, MEMORY, 64)
    ends_s = [TIME.of(size) / place.rate if size else 0.0 for size, place in zip(sizes, places, strict=True)]
    latest_s = max(ends_s)
    for size, place in zip(sizes, places, strict=True):
        if size < place.most(MEMORY, 64):
            assert TIME.of(size + 1) / place.rate >= latest_s * (1 - 1e-9)


@pytest.mark.parametrize("places", [[], [Place("0.0", 0.5, 1.0)]])
def test_trials_wait_where_no_place_has_room(places: list[Place]) -> None:
    assert by_rate(5, places, TIME, MEMORY, 64) == [0] * len(places)
