"""Makes a plan keep caps, floors and the cluster's limits, by changes of single rows that lose least."""

from __future__ import annotations

import numpy as np

from ...optimizer.allocation.options import Flags, Floats, Ints
from .options import EQUAL, NOTHING, TeamOptions, Terms

_ROOM = 1e-9  # by how much rounding errors may exceed a capacity
_TRIES = 6  # changes that are tried for one floor before it is given up
_SWEEPS = 20


class Repair:
    """A plan that is changed row by row, and what it takes.

    Args:
        plan: (rows,). prices: (limits,) of the cluster, which say what others would make of what a change takes.
    """

    def __init__(self, options: TeamOptions, terms: Terms, plan: Ints, prices: Floats) -> None:
        self._options, self._terms, self.plan = options, terms, plan.copy()
        none = options.places
        # The last option is nothing, which NOTHING names.
        self._gain, self._gpus = np.append(options.gain, 0.0), np.append(options.gpus, 0.0)
        self._place = np.append(options.place, none)
        self._usage = np.concatenate([options.usage, np.zeros((1, options.usage.shape[1]))])
        self._elsewhere, self._covers = np.append(terms.elsewhere, none), np.append(terms.covers, 0.0)
        self._worth = np.append(options.gain - options.usage @ prices, 0.0)
        self._cap, self._floor = np.append(terms.cap, np.inf), np.append(terms.floor, 0.0)
        self._scale = 1.0 / np.maximum(options.capacity, 1.0)
        self._count()

    def _count(self) -> None:
        options = self._options
        self._room = options.capacity - options.used(self.plan)
        self._use = np.append(options.of_places(self.plan), 0.0)
        self._has = np.append(self._terms.covered(options, self.plan), 0.0)

    @property
    def fits(self) -> bool:
        """Whether the plan keeps caps and the cluster's limits."""
        return bool((self._room >= -_ROOM).all() and (self._use <= self._cap + EQUAL).all())

    @property
    def short(self) -> float:
        """The GPUs that all floors together lack."""
        return float(np.maximum(self._floor - self._has, 0.0)[:-1].sum())

    def mend(self) -> bool:
        """Bring the plan within caps and limits, serve required rows and floors, and give away what is left.

        Return whether the plan fits.
        """
        self._cut()
        self._make_room(np.zeros(self._options.rows, bool), at_any_cost=True)
        self._serve()
        self._meet_floors()
        self._fill()
        return self.fits

    def _changes(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the options of some rows, and nothing for those that may have nothing; and whose they are."""
        optional = rows[~self._options.required[rows]]
        options = self._options.options_of(rows)
        return (
            np.concatenate([options, np.full(len(optional), NOTHING)]),
            np.concatenate([self._options.row[options], optional]),
        )

    def _at(self, options: Ints, place: Ints | int) -> Floats:
        """Return by how many GPUs options cover a place."""
        here = np.where(self._place[options] == place, self._gpus[options], 0.0)
        return np.asarray(here + np.where(self._elsewhere[options] == place, self._covers[options], 0.0))

    def _allowed(self, new: Ints, old: Ints, room: Floats | None = None) -> Flags:
        """Return whether each change keeps caps and floors that are kept, and needs no more than `room`."""
        place = self._place[new]
        more = self._gpus[new] - np.where(self._place[old] == place, self._gpus[old], 0.0)
        may = (more <= 0) | (self._use[place] + more <= self._cap[place] + EQUAL)
        for left in (self._place[old], self._elsewhere[old]):
            lost = self._at(old, left) - self._at(new, left)
            kept = np.minimum(self._floor[left], self._has[left]) - EQUAL
            may &= (lost <= 0) | (self._has[left] - lost >= kept) | (left == self._options.places)
        if room is not None:
            may &= (self._usage[new] - self._usage[old] <= room + _ROOM).all(axis=1)
        return np.asarray(may)

    def _apply(self, row: int, new: int) -> None:
        old = int(self.plan[row])
        self._room += self._usage[old] - self._usage[new]
        for option, sign in ((old, -1.0), (new, 1.0)):
            self._use[self._place[option]] += sign * self._gpus[option]
            self._has[self._place[option]] += sign * self._gpus[option]
            self._has[self._elsewhere[option]] += sign * self._covers[option]
        self._use[-1] = self._has[-1] = 0.0
        self.plan[row] = new

    def _cheapest(self, new: Ints, row: Ints, less: Floats, needed: float, may: Flags) -> tuple[int, int] | None:
        """Return row and option of the change that loses least for each unit of what is needed."""
        some = np.flatnonzero(may & (less > EQUAL))
        if not len(some):
            return None
        loss = self._worth[self.plan[row[some]]] - self._worth[new[some]]
        at = some[int((loss / np.minimum(less[some], needed)).argmin())]
        return int(row[at]), int(new[at])

    def _cut(self) -> None:
        """Take from teams what is beyond their caps: from required rows, and below floors, if need be."""
        while True:
            over = self._use - self._cap
            at = int(over.argmax())
            if over[at] <= EQUAL:
                return
            new, row = self._changes(np.flatnonzero(self._place[self.plan] == at))
            old = self.plan[row]
            less = self._gpus[old] - np.where(self._place[new] == at, self._gpus[new], 0.0)
            found = self._cheapest(new, row, less, over[at], self._allowed(new, old, np.maximum(self._room, 0.0)))
            self._apply(*(found or (int(row[int(old.argmax())]), NOTHING)))

    def _make_room(self, stays: Flags, at_any_cost: bool = False) -> bool:
        """Take from rows other than `stays` what is beyond the limits. Return whether that was possible."""
        while True:
            at = int(self._room.argmin()) if len(self._room) else 0
            if not len(self._room) or self._room[at] >= -_ROOM:
                return True
            new, row = self._changes(np.flatnonzero((self._usage[self.plan, at] > 0) & ~stays))
            old = self.plan[row]
            less = self._usage[old, at] - self._usage[new, at]
            may = self._allowed(new, old, np.maximum(self._room, 0.0))
            found = self._cheapest(new, row, less, -self._room[at], may)
            if found is None and at_any_cost and len(row):
                found = int(row[0]), NOTHING
            if found is None:
                return False
            self._apply(*found)

    @property
    def serves(self) -> bool:
        """Whether all required rows have something."""
        return not (self._options.required & (self.plan < 0)).any()

    def _serve(self) -> None:
        """Give required rows something where that is possible, and take it from others if need be."""
        required = self._options.required
        for row in np.flatnonzero(required & (self.plan < 0)).tolist():
            new = self._options.options_of(np.array([row]))
            order = new[np.argsort(-self._worth[new], kind="stable")]
            for option in order[self._allowed(order, np.full(len(order), NOTHING))].tolist():
                before = self.plan.copy()
                self._apply(row, option)
                if self._make_room(np.arange(len(required)) == row):
                    break
                self.plan = before
                self._count()

    def _meet_floors(self) -> None:
        banned = np.zeros(len(self._gain), bool)
        tries = np.zeros(len(self._floor), np.int64)
        stays = np.zeros(self._options.rows, bool)
        while True:
            short = np.where(tries < _TRIES, self._floor - self._has, 0.0)
            at = int(short.argmax())
            if short[at] <= EQUAL:
                return
            rows = np.unique(self._options.row[(self._options.place == at) | (self._terms.elsewhere == at)])
            new, row = self._changes(rows)
            old = self.plan[row]
            more = self._at(new, at) - self._at(old, at)
            found = self._cheapest(new, row, more, short[at], self._allowed(new, old) & ~banned[new])
            if found is None:
                tries[at] = _TRIES
                continue
            before = self.plan.copy()
            self._apply(*found)
            stays[found[0]] = True
            if not self._make_room(stays):
                self.plan, stays[found[0]], banned[found[1]] = before, False, True
                tries[at] += 1
                self._count()

    def _fill(self) -> None:
        """Change rows while that gains and fits, those first that gain most for what they take."""
        options = np.arange(len(self._options.row))
        rows = self._options.row
        for _ in range(_SWEEPS):
            old = self.plan[rows]
            gain = self._gain[options] - self._gain[old]
            some = np.flatnonzero(gain > 1e-7)
            some = some[self._allowed(options[some], old[some], np.maximum(self._room, 0.0))]
            if not len(some):
                return
            more = np.maximum((self._usage[some] - self._usage[old[some]]) @ self._scale, 0.0)
            order = some[np.argsort(-gain[some] / (more + 1e-7), kind="stable")]
            order = order[np.sort(np.unique(rows[order], return_index=True)[1])]
            done = 0
            for k in order.tolist():
                if self._fits_now(int(rows[k]), k):
                    self._apply(int(rows[k]), k)
                    done += 1
            if not done:
                return

    def _fits_now(self, row: int, new: int) -> bool:
        """Return what `_allowed` says of one change, within the room that is left."""
        old, place = int(self.plan[row]), int(self._place[new])
        more = self._gpus[new] - (self._gpus[old] if self._place[old] == place else 0.0)
        if more > 0 and self._use[place] + more > self._cap[place] + EQUAL:
            return False
        if (self._usage[new] - self._usage[old] > np.maximum(self._room, 0.0) + _ROOM).any():
            return False
        if old < 0:
            return True
        return bool(self._allowed(np.array([new]), np.array([old]))[0])
