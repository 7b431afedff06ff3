"""What a team asks for of its guarantee: what its jobs would take if they had it to themselves."""

from __future__ import annotations

import numpy as np

from ...optimizer.allocation.options import Flags, Floats, Ints
from .options import EQUAL, NOTHING, TeamOptions, Terms


def alone(options: TeamOptions, guarantee: Floats, which: Flags) -> Ints:
    """Return the plan of teams that each have their guarantee alone: `which` (places,) matter.

    Each job begins with nothing. The change that gains most for each GPU more comes first, as long as it fits in
    what is left of the guarantee. It ends where no change gains. Ties go to the first row, then to the fewer GPUs.
    """
    plan, left = np.full(options.rows, NOTHING), np.append(guarantee, 0.0)
    may = np.append(which, False)[options.place] & (options.gpus <= left[options.place]) & (options.gain > EQUAL)
    some = np.flatnonzero(may)
    row, place, gpus, gain = options.row[some], options.place[some], options.gpus[some], options.gain[some]
    while len(some):
        now = plan[row]
        has = now >= 0
        more_gain = gain - np.where(has, options.gain[now], 0.0)
        more = gpus - np.where(has & (options.place[now] == place), options.gpus[now], 0.0)
        open_ = np.flatnonzero((more_gain > EQUAL) & (more <= left[place] + EQUAL))
        if not len(open_):
            break
        rate = more_gain[open_] / np.maximum(more[open_], 1e-3)
        order = open_[np.lexsort((gpus[open_], row[open_], -rate))]
        order = order[np.sort(np.unique(row[order], return_index=True)[1])]
        taken = order[_in_turn(place[order], more[order], left)]
        old = plan[row[taken]]
        has = old >= 0
        np.add.at(left, options.place[old[has]], options.gpus[old[has]])
        np.subtract.at(left, place[taken], gpus[taken])
        plan[row[taken]] = some[taken]
    return plan


def _in_turn(place: Ints, more: Floats, left: Floats) -> Flags:
    """Return which changes fit in what is left of their places, in turn, up to the first of each that does not.

    Args:
        place, more: (changes,) where each takes how many GPUs more.
    """
    order = np.argsort(place, kind="stable")
    where, sums = place[order], np.cumsum(more[order])
    first = np.searchsorted(where, where)  # of the same place
    fits = sums - np.append(0.0, sums)[first] <= left[where] + EQUAL
    missed = np.cumsum(~fits)
    fits &= missed == np.append(0, missed)[first]
    found = np.zeros(len(place), bool)
    found[order[fits]] = True
    return found


def asked(options: TeamOptions, guarantee: Floats, which: Flags, cap: Floats) -> Terms:
    """Return the terms by which guarantees are met: each place covers what its team would take alone.

    A job that has on another GPU type what gains it as much covers the GPUs that it would take.

    Args:
        guarantee, cap: (places,).
        which: (places,) whose team's guarantee counts.
    """
    plan = alone(options, guarantee, which)
    has = np.flatnonzero(plan >= 0)
    home, worth, size = (
        np.full(options.rows, options.places),
        np.full(options.rows, np.inf),
        np.zeros(options.rows),
    )
    home[has], worth[has], size[has] = options.place[plan[has]], options.gain[plan[has]], options.gpus[plan[has]]
    others = (options.place != home[options.row]) & (options.gain >= worth[options.row] - EQUAL)
    return Terms(
        cap,
        options.of_places(plan),
        np.where(others, home[options.row], options.places),
        np.where(others, size[options.row], 0.0),
    )
