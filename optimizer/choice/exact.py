"""What HiGHS does for a choice program: who of those required can be served, and what nothing else closes."""

from __future__ import annotations

import numpy as np

from .. import milp
from .problem import ChoiceProblem
from .rows import NOTHING, Floats, Ints, columns_of
from .snapshot import Snapshot

SLACK = 1e-9  # by which rounding may exceed a capacity


def meet_required(snapshot: Snapshot, time_limit_s: float) -> tuple[Ints, tuple[int, ...]]:
    """Picks that serve the required rows, and the places in the order of those that cannot be, last ones first.

    Half of the time limit is what is spent on it at most, and ten seconds.
    """
    order = snapshot.rows.order
    places = np.flatnonzero(snapshot.rows.required[order])
    value, pick = snapshot.dense(order[places])
    problem = ChoiceProblem(value, pick != NOTHING, snapshot.usage, snapshot.capacity)
    choice, unmet = milp.meet_required(problem, time_limit_s)
    picks = snapshot.no_picks()
    met = np.flatnonzero(choice >= 0)
    picks[order[places[met]]] = pick[met, choice[met]]
    return picks, tuple(int(places[i]) for i in unmet)


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
    used = snapshot.usage[:, found.choice[served]].sum(axis=1)
    if not found.unmet and found.objective > value and (used <= snapshot.capacity + SLACK).all():
        picks[order] = NOTHING
        picks[order[served]] = pick[np.flatnonzero(served), found.choice[served]]
        value = found.objective
    return value, max(min(bound, found.bound), value)
