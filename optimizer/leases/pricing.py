"""The best leases of every option at given prices, and the bound that follows from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .problem import NOTHING, Floats, Ints, LeaseProblem


@dataclass(frozen=True, eq=False)
class Priced:
    """gain: (options,) what each brings beyond its price in its cheapest slots; -inf where it cannot be had.

    taken: (options, slots) its leases there.
    """

    gain: Floats
    taken: Ints


def priced(problem: LeaseProblem, prices: Floats) -> Priced:
    """Return each option in its cheapest slots; of equal ones the earliest comes first.

    prices: (limits, slots), of one lease of each limit.
    """
    cost = problem.usage @ prices
    begins = problem.length[0] == 1
    cost[:, 0] -= problem.first if begins else 0.0
    order = np.argsort(cost, axis=1, kind="stable")
    most = np.take_along_axis(problem.most, order, axis=1)
    before = np.cumsum(most, axis=1) - most
    sorted_taken = np.clip(problem.leases[:, None] - before, 0, most)
    taken = np.zeros_like(most)
    np.put_along_axis(taken, order, sorted_taken, axis=1)
    gain = problem.worth - (taken * cost).sum(axis=1)
    gain[~problem.possible] = -np.inf
    return Priced(gain, taken)


def best_of(problem: LeaseProblem, gain: Floats) -> tuple[Ints, Floats]:
    """Return (rows,) the option that gains most, and what it gains; NOTHING and 0 where none gains anything."""
    option, most = np.full(problem.rows, NOTHING), np.zeros(problem.rows)
    if not len(gain):
        return option, most
    starts = np.flatnonzero(np.diff(problem.row, prepend=-1))
    rows = problem.row[starts]
    most[rows] = np.maximum(np.maximum.reduceat(gain, starts), 0.0)
    wins = np.flatnonzero((gain > 0) & (gain >= most[problem.row]))
    option[problem.row[wins[::-1]]] = wins[::-1]  # the first of equal ones
    return option, most


def bound_of(problem: LeaseProblem, most: Floats, prices: Floats) -> float:
    """Return what no plan exceeds: what rows gain at these prices, and what all room is worth at them."""
    return float(most.sum() + (prices * problem.room).sum())
