"""What HiGHS does for a choice program: who of those required can be served, and what nothing else closes."""

from __future__ import annotations

import numpy as np

from . import milp
from .problem import ChoiceProblem
from .rows import NOTHING, Floats, Ints, columns_of
from .snapshot import Snapshot

SLACK = 1e-9  # by which rounding may exceed a capacity


def meet_required(snapshot: Snapshot, time_limit_s: float) -> tuple[Ints, tuple[int, ...]]:
    """Picks that serve the required rows, and the places in the order of those that cannot be, last ones first.

    Of what HiGHS is content with a little beyond a capacity, the last rows go without.

    Half of the time limit is what is spent on it at most, and ten seconds.
    """
    order = snapshot.rows.order
    places = np.flatnonzero(snapshot.rows.required[order])
    value, pick = snapshot.dense(order[places])
    problem = ChoiceProblem(value, pick != NOTHING, snapshot.usage, snapshot.capacity)
    choice, _ = milp.meet_required(problem, time_limit_s)
    over = _used(snapshot, choice) > snapshot.capacity + SLACK
    for i in range(len(choice) - 1, -1, -1):
        if choice[i] >= 0 and (snapshot.usage[over, choice[i]] > 0).any():
            choice[i] = -1
            over = _used(snapshot, choice) > snapshot.capacity + SLACK
    picks = snapshot.no_picks()
    met = np.flatnonzero(choice >= 0)
    picks[order[places[met]]] = pick[met, choice[met]]
    return picks, tuple(int(i) for i in places[choice < 0][::-1])


def _used(snapshot: Snapshot, choice: Ints) -> Floats:
    """(limits,) what the columns that are picked, -1: none, take of each."""
    used: Floats = snapshot.usage[:, choice[choice >= 0]].sum(axis=1)
    return used


def branch(
    snapshot: Snapshot, prices: Floats, picks: Ints, value: float, bound: float, gap: float, time_limit_s: float
) -> tuple[float, float]:
    """(objective, bound) by branch and bound from `picks`; a plan better than their `value` is written to them."""
    order = snapshot.rows.order
    dense, pick = snapshot.dense(order)
    required = snapshot.rows.required[order]
    problem = ChoiceProblem(dense, pick != NOTHING, snapshot.usage, snapshot.capacity, required)
    found = milp.solve(problem, time_limit_s, gap, columns_of(snapshot.rows, picks), prices)
    served = found.choice >= 0
    fits = (_used(snapshot, found.choice) <= snapshot.capacity + SLACK).all()
    if not found.unmet and found.objective > value and fits:
        picks[order] = NOTHING
        picks[order[served]] = pick[np.flatnonzero(served), found.choice[served]]
        value = found.objective
    return value, max(min(bound, found.bound), value)
