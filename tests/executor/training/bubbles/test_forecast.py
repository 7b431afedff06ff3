"""What bubbles and layers are expected to take, and which layers begin."""

from __future__ import annotations

import pytest
from coadapt.executor.training.bubbles.forecast import ROOM, BubbleLengths, LayerTimes, may_begin


def test_a_bubble_is_as_long_as_the_shortest_of_the_last_three_iterations() -> None:
    lengths = BubbleLengths()
    assert (lengths.expected_s(0), lengths.longest_s) == (0.0, 0.0)
    for length_s in (0.1, 0.4, 0.3, 0.5):
        lengths.record(0, length_s)
    lengths.record(1, 0.35)
    assert lengths.expected_s(0) == 0.3
    assert lengths.expected_s(2) == 0.0
    assert lengths.longest_s == 0.35


def test_a_layer_may_take_a_quarter_longer_than_it_ever_did_lately() -> None:
    times = LayerTimes()
    assert times.expected_s("a") is None
    for time_s in (9.0, 1.0, 2.0, 1.0, 1.0, 1.0):  # the first is too long ago
        times.record("a", time_s)
    assert times.expected_s("a") == 2.0 * ROOM
    assert times.expected_s("b") is None


@pytest.mark.parametrize(
    ("expected_s", "left_s", "longest_s", "begins"),
    [
        (0.01, 0.02, 0.05, True),
        (0.01, 0.005, 0.05, False),
        (0.01, -1.0, 0.05, False),  # the bubble is over
        (None, 0.03, 0.05, True),  # not measured: at the beginning of a long bubble
        (None, 0.02, 0.05, False),
        (None, 0.02, 0.0, False),  # no bubble is known
        (0.2, 0.03, 0.05, True),  # longer than any bubble: measured once more
        (0.2, 0.02, 0.05, False),
    ],
)
def test_a_layer_begins_where_it_will_have_ended_in_time(
    expected_s: float | None, left_s: float, longest_s: float, begins: bool
) -> None:
    assert may_begin(expected_s, left_s, longest_s) is begins
