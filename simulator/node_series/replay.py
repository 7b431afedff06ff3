"""Replays a series of node counts: how many nodes a rule would have off, and how often it would wake some. Pure.

Nodes wake in the slot in which more run than are awake. They sleep at the end of a slot, by what is known then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...estimators.node_demand import NodeForecast
from ...estimators.node_series import SLOT_S, Floats, Ints, NodeSeries
from ...policies.sleeping.counts import DAY_S, CountRule, Seen, wakes_left
from ...policies.sleeping.kwh import boot_kwh, saved_kwh


@dataclass(frozen=True, eq=False)
class Replayed:
    """What became of a series under a rule, over those slots in which somebody counted.

    awake: (slots,) nodes awake, also in slots that are unknown.
    woken: (wake-ups,) how many nodes woke at once.
    """

    series: NodeSeries
    awake: Ints
    woken: tuple[int, ...]

    @property
    def days(self) -> float:
        return len(self.series) * SLOT_S / DAY_S

    @property
    def nodes_off(self) -> float:
        """Nodes that are off, in the mean."""
        return float((self.series.total - self.awake)[self.series.known].mean())

    @property
    def wakes_per_day(self) -> float:
        return len(self.woken) / self.days

    @property
    def nodes_per_wake(self) -> float:
        """Nodes that wake at once, in the mean; nan if none ever does."""
        return float(np.mean(self.woken)) if self.woken else math.nan

    @property
    def utilisation_before(self) -> float:
        """Mean share of all nodes that run."""
        return self._share_of(self.series.total)

    @property
    def utilisation_after(self) -> float:
        """Mean share of the nodes awake that run."""
        return self._share_of(self.awake)

    def _share_of(self, nodes: Ints) -> float:
        some = self.series.known & (nodes > 0)
        return float((self.series.running[some] / nodes[some]).mean())

    @property
    def saved_kwh(self) -> float:
        """What was saved in the time of the series, less what booting took."""
        return saved_kwh(self.nodes_off * self.days * 24) - boot_kwh(sum(self.woken))


def replay(
    rule: CountRule,
    history: NodeSeries,
    shown: NodeSeries,
    forecasts: Sequence[NodeForecast | None],
    *,
    grants_per_day: float | None = None,
) -> Replayed:
    """Replay `shown` under a rule. At first as many are awake as the rule would wake.

    Args:
        history: what was before, up to the first slot that is shown.
        forecasts: (slots,) what is foreseen at the end of each slot, by what was before it.
        grants_per_day: wake-ups that the operator grants; None: they are not counted.

    Raises:
        ValueError: where the first slot is unknown, or the series do not meet.
    """
    if not len(shown) or not shown.known[0] or history.end_s != shown.start_s or len(forecasts) != len(shown):
        raise ValueError(
            "node series: it must begin with a known slot where its history ends, with a forecast each"
        )
    running = np.concatenate([history.filled, shown.filled])[-len(shown) - _MOST_SEEN :]
    first = len(running) - len(shown)
    running = np.where(np.isfinite(running), running, running[first])
    state = _State(shown.start_s, grants_per_day)
    awake, counts = 0, np.zeros(len(shown), np.int64)
    for at in range(len(shown)):
        now = shown.start_s + SLOT_S * at
        if not shown.known[at]:
            counts[at] = awake
            continue
        total, needed = int(shown.total[at]), int(shown.running[at])
        awake = min(awake, total)
        before = state.seen(running[: first + at + 1], total, forecasts[at - 1] if at else None, now)
        found = rule.woken(before, awake, needed)
        if at == 0:
            awake = found
        elif found > awake:
            state.woke(now, found - awake)
            awake = found
        counts[at] = awake
        after = state.seen(running[: first + at + 1], total, forecasts[at], now + SLOT_S)
        awake = max(min(rule.slept(after, awake), awake), needed)
    return Replayed(shown, counts, tuple(state.nodes))


_MOST_SEEN = 1008  # slots of the history that rules look at: a week


class _State:
    """When nodes woke, and what a rule sees by that."""

    def __init__(self, since_s: float, grants_per_day: float | None) -> None:
        self._since_s, self._grants = since_s, grants_per_day
        self._at: list[float] = []
        self.nodes: list[int] = []

    def woke(self, now: float, nodes: int) -> None:
        self._at.append(now)
        self.nodes.append(nodes)

    def seen(self, running: Floats, total: int, forecast: NodeForecast | None, now: float) -> Seen:
        left = None if self._grants is None else wakes_left(self._grants, self._since_s, self._at, now)
        since = (now - self._at[-1]) / SLOT_S if self._at else math.inf
        return Seen(running, total, forecast, since, left)
