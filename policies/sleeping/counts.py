"""How many nodes should be awake: the published algorithm, ours, and rules without a forecast. Pure.

All count nodes of one kind, which stand in for each other (Helios, SC'21, algorithm 2). A moment is the end of a
slot of ten minutes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...estimators.node_demand import NodeForecast
from ...estimators.node_series import SLOT_S, Floats

DAY_S = 86_400.0
MOST_SAVED = 2.0  # wake-ups that may be saved up
# What is reckoned with by how many wake-ups are left: (slots ahead, certainty) of `node_demand.PEAKS`.
CAUTIOUS, USUAL, BOLD = (36, 0.95), (18, 0.9), (18, 0.7)


@dataclass(frozen=True)
class Seen:
    """What is known of one kind of nodes at a moment.

    running: (slots,) nodes with a job, the newest last, without gaps.
    total: nodes that there are.
    forecast: None if nothing can be foreseen yet.
    slots_since_wake: since nodes were last woken; infinity: never.
    wakes_left: wake-ups that the operator still grants; None: they are not counted.
    """

    running: Floats
    total: int
    forecast: NodeForecast | None = None
    slots_since_wake: float = math.inf
    wakes_left: float | None = None

    @property
    def now(self) -> int:
        """Nodes with a job."""
        return int(self.running[-1])


class CountRule(Protocol):
    """Says how many nodes should be awake."""

    def woken(self, seen: Seen, awake: int, needed: int) -> int:
        """Return how many should be awake now that `needed` are; `awake` if that is enough."""

    def slept(self, seen: Seen, awake: int) -> int:
        """Return how many should stay awake at the check of every ten minutes: `awake` or fewer."""


def arrival_check(awake: int, needed: int, buffer: int, total: int) -> int:
    """Return how many should be awake when jobs arrive that need `needed` nodes in all (lines 859 and 860)."""
    return min(total, needed + buffer) if awake < needed else awake


def periodic_check(awake: int, running: int, buffer: int, may: bool) -> int:
    """Return how many stay awake: those that run and the buffer, where both trends allow it (lines 861 to 866)."""
    return max(running, min(awake, running + buffer)) if may else awake


@dataclass(frozen=True)
class TrendRule:
    """The published rule: sleep where fewer nodes run than a while ago, and fewer than now are foreseen.

    buffer: σ, nodes that stay awake beside those that run.
    history, future: slots of the recent and of the foreseen trend.
    least_drop_seen, least_drop_foreseen: ξ_H and ξ_P, nodes.
    least_decrease: nodes below which it is not worth it. hold: slots after a wake-up in which nobody sleeps.
    """

    buffer: int
    history: int
    future: int
    least_drop_seen: float
    least_drop_foreseen: float
    least_decrease: int = 1
    hold: int = 0

    def woken(self, seen: Seen, awake: int, needed: int) -> int:
        return arrival_check(awake, needed, self.buffer, seen.total)

    def slept(self, seen: Seen, awake: int) -> int:
        if seen.forecast is None or seen.slots_since_wake < self.hold or len(seen.running) <= self.history:
            return awake
        dropped = float(seen.running[-1 - self.history : -1].mean()) - seen.now
        foreseen = seen.now - seen.forecast.mean_over(self.future)
        may = dropped >= self.least_drop_seen and foreseen >= self.least_drop_foreseen
        left = periodic_check(awake, seen.now, self.buffer, may)
        return left if awake - left >= self.least_decrease else awake


@dataclass(frozen=True)
class RecentRule:
    """No more than was needed in the last `window` slots, and a buffer: a rule without any forecast."""

    window: int
    buffer: int
    least_decrease: int = 1

    def woken(self, seen: Seen, awake: int, needed: int) -> int:
        return arrival_check(awake, needed, self.buffer, seen.total)

    def slept(self, seen: Seen, awake: int) -> int:
        needed = int(seen.running[-self.window :].max()) + self.buffer
        return needed if awake - needed >= self.least_decrease else awake


# What idles sleeps at once, and what is needed wakes: dynamic resource sleep by the load of now alone.
VANILLA = RecentRule(window=1, buffer=0)


@dataclass(frozen=True)
class PeakRule:
    """Our rule: as many as are likely needed at most for some hours. The fewer wake-ups are left, the surer.

    Nodes wake for what is foreseen, too, so that the next job needs no other wake-up. While nothing can be
    foreseen, what was needed within a day counts.

    buffer: nodes beside those. least_decrease, hold: as in `TrendRule`.
    """

    buffer: int = 1
    least_decrease: int = 1
    hold: int = 6

    def woken(self, seen: Seen, awake: int, needed: int) -> int:
        likely = self._likely(seen, after=1)
        return arrival_check(awake, needed, max(likely - needed, 0) + self.buffer, seen.total)

    def slept(self, seen: Seen, awake: int) -> int:
        if seen.slots_since_wake < self.hold:
            return awake
        needed = max(self._likely(seen), seen.now) + self.buffer
        return needed if awake - needed >= self.least_decrease else awake

    def _likely(self, seen: Seen, after: int = 0) -> int:
        """Return the most nodes that are likely needed; `after`: so many more wake-ups."""
        if seen.forecast is None:
            return int(seen.running[-_A_DAY:].max())
        return math.ceil(seen.forecast.peak(*_sureness(seen.wakes_left, after)))


_A_DAY = int(DAY_S / SLOT_S)


def _sureness(wakes_left: float | None, after: int) -> tuple[int, float]:
    if wakes_left is None:
        return USUAL
    left = wakes_left - after
    return CAUTIOUS if left < 1 else USUAL if left < 2 else BOLD


def wakes_left(per_day: float, since_s: float, woke_s: Sequence[float], now: float) -> float:
    """Return how many wake-ups an operator still grants who grants `per_day`; below 0 if there were too many.

    At first there is one. They are saved up to `MOST_SAVED`.

    Args:
        since_s: when counting began.
        woke_s: when nodes were woken since, ascending.
    """
    left, last = 1.0, since_s
    for at in woke_s:
        left, last = min(left + per_day * (at - last) / DAY_S, MOST_SAVED) - 1, at
    return min(left + per_day * (now - last) / DAY_S, MOST_SAVED)


# The settings of the authors' own runs, by cluster.
PUBLISHED: Mapping[str, TrendRule] = {
    "venus": TrendRule(5, 3, 18, 0.5, 1.0, 2, 12),
    "earth": TrendRule(5, 6, 18, 1.0, 1.0, 5, 12),
    "saturn": TrendRule(5, 6, 18, 1.0, 1.0, 1, 12),
    "uranus": TrendRule(7, 3, 18, 1.0, 1.0, 1, 12),
    "philly": TrendRule(20, 2, 30, 0.1, 0.0, 1, 10),
}
