"""How long bubbles and layers are expected to be, from those before. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable

ITERATIONS = 3  # before this one, by which a bubble is foreseen
TIMES = 5  # of a layer
ROOM = 1.25  # times a layer's longest time: what it is expected to take at most


class BubbleLengths:
    """Lengths of the bubbles of an iteration. Iterations are alike, so each is as long as it was.

    Of the last three iterations the shortest counts: one that ends sooner than expected would hold its owner up.
    """

    def __init__(self) -> None:
        self._lengths: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=ITERATIONS))

    def record(self, at: int, length_s: float) -> None:
        """Take down how long the bubble at a position of the iteration was."""
        self._lengths[at].append(length_s)

    def expected_s(self, at: int) -> float:
        """Return how long a bubble will be at least; 0: nothing is known of it yet."""
        return min(self._lengths[at], default=0.0)

    @property
    def longest_s(self) -> float:
        """The longest bubble that is expected in an iteration."""
        return max((min(lengths) for lengths in self._lengths.values() if lengths), default=0.0)


class LayerTimes:
    """Times of the layers of a guest, by what tells a layer's pass from others."""

    def __init__(self) -> None:
        self._times: dict[Hashable, deque[float]] = defaultdict(lambda: deque(maxlen=TIMES))

    def record(self, layer: Hashable, time_s: float) -> None:
        """Take down how long a layer took."""
        self._times[layer].append(time_s)

    def expected_s(self, layer: Hashable) -> float | None:
        """Return how long a layer takes at most; None: it was not measured."""
        times = self._times[layer]
        return max(times) * ROOM if times else None


def may_begin(expected_s: float | None, left_s: float, longest_s: float) -> bool:
    """Return whether a layer begins in a bubble that is open for `left_s` more seconds.

    A layer that was not measured, or that takes longer than any bubble, begins where half of the longest one is
    left: it may have been slow once only.
    """
    if expected_s is None or expected_s > longest_s:
        return left_s >= longest_s / 2 > 0
    return expected_s <= left_s
