"""Prices of teams: what a GPU costs more at a cap, and less below a guarantee.

The Lagrangian bound holds at any prices of at least 0. It is prices of limits @ capacity, plus prices of caps @
caps, less prices of floors @ floors, plus what each row gains at its best. No plan that keeps all exceeds it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...optimizer.allocation.options import Flags, Floats, Ints
from .options import EQUAL, NOTHING, TeamOptions, Terms

_HALVINGS = 20


@dataclass(frozen=True, eq=False)
class Prices:
    """limit: (limits,) of the cluster. over, under: (places + 1,) of caps and of floors; 0 for no team."""

    limit: Floats
    over: Floats
    under: Floats

    @property
    def has_teams(self) -> bool:
        return bool(self.over.any() or self.under.any())


def team_gain(options: TeamOptions, terms: Terms, prices: Prices) -> Floats:
    """Return (options,) gains at the prices of teams, before the cluster's."""
    here = (prices.under - prices.over)[options.place]
    gain: Floats = options.gain + here * options.gpus + prices.under[terms.elsewhere] * terms.covers
    return gain


def net_gain(options: TeamOptions, terms: Terms, prices: Prices) -> Floats:
    """Return (options,) gains less all prices."""
    return np.asarray(team_gain(options, terms, prices) - options.usage @ prices.limit)


def best(options: TeamOptions, net: Floats) -> tuple[Floats, Ints]:
    """Return (rows,) the most that each row gains, and the plan that does so: the first of equal options."""
    worth = np.where(options.required, -np.inf, 0.0)
    plan = np.full(options.rows, NOTHING)
    rows = np.flatnonzero(options.begin[1:] > options.begin[:-1])
    if len(rows):
        most = np.maximum.reduceat(net, options.begin[rows])
        better = most > worth[rows]
        at = np.flatnonzero(net == np.repeat(most, (options.begin[1:] - options.begin[:-1])[rows]))
        first = at[np.unique(options.row[at], return_index=True)[1]]
        worth[rows] = np.where(better, most, worth[rows])
        plan[rows[better]] = first[better]
    worth[np.isinf(worth)] = 0.0  # required rows without an option
    return worth, plan


def bound(options: TeamOptions, terms: Terms, prices: Prices, worth: Floats) -> float:
    """Return the Lagrangian bound of what rows gain at their best, `worth` (rows,)."""
    limited = np.where(np.isfinite(terms.cap), terms.cap, 0.0)
    paid = prices.limit @ options.capacity + prices.over[:-1] @ limited - prices.under[:-1] @ terms.floor
    return float(worth.sum() + paid)


def settle(options: TeamOptions, terms: Terms, prices: Prices, caps: Flags, floors: Flags) -> Prices:
    """Return prices at which teams take no more than their caps and no less than their floors.

    The prices of the cluster stay. Every price of a team is found by halving, all of them at once. So those of one
    team's types are right only nearly.

    Args:
        caps, floors: (places,) which prices are sought; the others stay.
    """
    mine = np.append(caps | floors, False)
    rows = np.zeros(options.rows, bool)
    rows[options.row[mine[options.place] | mine[terms.elsewhere]]] = True
    keep = rows[options.row]
    some = options.only(keep, options.required)
    own = Terms(terms.cap, terms.floor, terms.elsewhere[keep], terms.covers[keep])
    market = some.gain - some.usage @ prices.limit
    over, under = prices.over.copy(), prices.under.copy()
    most = np.maximum(best(some, market)[0], 0.0)[some.row]
    each = np.maximum(some.gpus, 1.0)
    for which, price in ((caps, over), (floors, under)):
        if not which.any():
            continue
        ceiling = np.zeros(options.places + 1)
        far = np.maximum(market, 0.0) if price is over else most - market
        np.maximum.at(ceiling, some.place, (far + EQUAL) / each)
        np.maximum.at(ceiling, own.elsewhere, (far + EQUAL) / np.maximum(own.covers, 1.0))
        low, high = np.zeros(options.places), 2.0 * ceiling[:-1]
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            price[:-1][which] = middle[which]
            here = (under - over)[some.place]
            plan = best(some, market + here * some.gpus + under[own.elsewhere] * own.covers)[1]
            enough = (
                some.of_places(plan) <= terms.cap + EQUAL
                if price is over
                else own.covered(some, plan) >= terms.floor - EQUAL
            )
            high, low = np.where(enough, middle, high), np.where(enough, low, middle)
        price[:-1][which] = high[which]
    return Prices(prices.limit, over, under)
