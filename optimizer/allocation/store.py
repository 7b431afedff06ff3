"""The rows of a program by id: where their options lie, their weights, and what is known of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import repeat

import numpy as np

from .box import UNKNOWN, Known, Program
from .limits import ColumnOrder, Limits
from .listing import Entries
from .options import Flags, Floats, Ints, Rows
from .pool import BEGIN, END, FULL_BEGIN, FULL_END, OptionPool, sift
from .snapshot import Snapshot

_NUMBERS = ("start", "count", "kind", "stay_column", "fixed")
_OTHERS = {"offset": float, "scale": float, "stay_gain": float, "required": bool, "state": np.int8}


class RowStore:
    """Rows in slots of flat arrays. The slot of a removed row is used again."""

    def __init__(self, order: ColumnOrder) -> None:
        self._order = order
        self._pool = OptionPool()
        self._slot: dict[str, int] = {}
        self._asked: tuple[list[str], Ints] = [], np.empty(0, np.int64)  # ids, and their slots
        self._spare: list[int] = []
        self._rows: dict[str, np.ndarray] = {}
        self._grow(64)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_asked"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _asked=([], np.empty(0, np.int64)))

    def __len__(self) -> int:
        return len(self._slot)

    def __contains__(self, id: object) -> bool:
        return id in self._slot

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._slot)

    def _grow(self, size: int) -> None:
        had = len(self._rows["start"]) if self._rows else 0
        kinds: dict[str, type] = {**dict.fromkeys(_NUMBERS, np.int64), **_OTHERS}
        rows: dict[str, np.ndarray] = {name: np.zeros(size, kind) for name, kind in kinds.items()}
        rows["ranges"] = np.zeros((size, self._order.groups, 4), np.int32)
        rows["top"] = np.zeros((size, self._order.groups), np.int32)
        for name, old in self._rows.items():
            rows[name][:had] = old
        self._rows = rows
        self._spare += range(size - 1, had - 1, -1)

    def slots(self, ids: Sequence[str]) -> Ints:
        """Return the slots of ids. Raises ValueError for an unknown or repeated id."""
        # Rounds ask for the same rows again and again, and comparing equal lists of the same strings is fast.
        known, slots = self._asked
        if len(known) == len(ids) and known == (ids if isinstance(ids, list) else list(ids)):
            return slots
        try:
            slots = np.fromiter(map(self._slot.__getitem__, ids), np.int64, len(ids))
        except KeyError as error:
            raise ValueError(f"id: {error.args[0]!r} is not in the program") from None
        seen = np.zeros(len(self._rows["start"]), bool)
        seen[slots] = True
        if seen.sum() < len(slots):
            checked_unique(ids)
        if 2 * len(slots) > len(self._slot):
            self._asked = list(ids), slots
        return slots

    def of(self, name: str, slots: Ints) -> np.ndarray:
        """Return an array of some rows, such as "required" or "kind"."""
        return np.asarray(self._rows[name][slots])

    def upsert(
        self, ids: Sequence[str], flat: Ints, value: Floats, required: Flags, kind: Ints, chain: Flags
    ) -> None:
        """Add rows, or replace the options of rows that are there. Arrays are as `sift` takes them."""
        order, pool = self._order, self._pool
        ranges, counts = np.empty((len(ids), order.groups, 4), np.int32), np.empty(len(ids), np.int64)
        columns = order.by_group, order.begin, order.size, chain
        column, gain = sift(flat, value, kind, *columns, counts, ranges)
        pool.expect(counts)
        slots = np.fromiter(map(self._slot.get, ids, repeat(-1)), np.int64, len(ids))
        new = np.flatnonzero(slots < 0)
        while len(self._spare) < len(new):
            self._grow(2 * len(self._rows["start"]))
        rows = self._rows
        for i in new.tolist():
            slots[i] = self._slot[ids[i]] = self._spare.pop()
        fresh = slots[new]
        rows["start"][fresh] = rows["stay_column"][fresh] = -1
        rows["offset"][fresh], rows["scale"][fresh], rows["kind"][fresh] = 0.0, 1.0, kind[new]
        begin = pool.move(rows["start"][slots], rows["count"][slots], counts)
        pool.write(begin, counts, column, gain)
        rows["start"][slots], rows["count"][slots] = begin, counts
        rows["ranges"][slots] = ranges + begin[:, None, None]
        stays, width = rows["stay_column"][slots], len(order.group)
        rows["stay_column"][slots] = np.where(stays < 0, -1, stays % max(width, 1) + kind * width)
        rows["required"][slots], rows["kind"][slots] = required, kind
        rows["state"][slots] = UNKNOWN

    def remove(self, ids: Sequence[str]) -> None:
        slots = self.slots(ids)
        self._rows["state"][slots] = UNKNOWN
        self._pool.release(self._rows["start"][slots], self._rows["count"][slots])
        self._spare += slots.tolist()
        for id in ids:
            del self._slot[id]
        if len(slots):
            self._asked = [], slots[:0]

    def set_incumbents(self, slots: Ints, column: Ints, gain: Floats) -> bool:
        """Write the columns (-1 for none) in which rows may stay. Return whether that changes anything."""
        rows, width = self._rows, len(self._order.group)
        column = np.where(column >= 0, column + rows["kind"][slots] * width, -1)
        return self.change(slots, stay_column=column, stay_gain=np.where(column >= 0, gain, 0.0))

    def change(self, slots: Ints, **arrays: np.ndarray) -> bool:
        """Write arrays of rows, and forget the states of rows that change. Return whether any row changes."""
        changed = np.zeros(len(slots), bool)
        for name, array in arrays.items():
            changed |= self._rows[name][slots] != array
            self._rows[name][slots] = array
        self._rows["state"][slots[changed]] = UNKNOWN
        return bool(changed.any())

    def forget_states(self) -> None:
        """Forget which rows are fixed, as other limits may change that."""
        self._rows["state"][:] = UNKNOWN

    def snapshot(self, slots: Ints, limits: Limits, concave: Flags, chain: Flags, unit: float) -> Snapshot:
        """Return the rows as a solver reads them, with gains counted in `unit`."""
        r, pool = self._rows, self._pool
        gains = r["offset"], r["scale"], r["stay_gain"]
        if unit != 1.0:
            gains = gains[0] / unit, gains[1] / unit, gains[2] / unit
        own = pool.column, pool.value, gains[0], gains[1], r["stay_column"], gains[2], r["required"], r["top"]
        # Contiguous for any number of groups: numba compiles every kernel anew for another layout.
        planes = np.ascontiguousarray(np.moveaxis(r["ranges"], 2, 0))
        full_begin, full_end = planes[FULL_BEGIN], planes[FULL_END]
        everything = Rows(slots, full_begin, full_end, np.zeros(len(concave), bool), chain, *own)
        begin = np.where(concave, planes[BEGIN], full_begin)
        end = np.where(concave, planes[END], full_end)
        rows = Rows(slots, begin, end, concave, chain, *own)
        return Snapshot(
            Program(rows, limits.columns, limits.room),
            Program(everything, limits.columns, limits.room),
            limits.usage / limits.unit[:, None],
            r["kind"],
            Known(r["state"], r["fixed"]),
        )

    def entries(self, slots: Ints, limits: Limits) -> Entries:
        """Return the options of rows that can matter."""
        none = np.zeros(self._order.groups, bool)
        return self.snapshot(slots, limits, none, none, 1.0).entries()


def checked_unique(ids: Sequence[str]) -> None:
    """Raise ValueError if an id is given twice."""
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise ValueError(f"id: {twice!r} is given twice")
