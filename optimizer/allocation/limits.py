"""What the columns of a program take of its limits, checked, and as compiled code reads it.

A column's usage may depend on the kind of the row that picks it. Every kind has a copy of every column. Column c
of kind k is numbered k * columns + c. For example, a team's quota is a limit that only rows of the team's kind
use. CPUs and memory are limits of which each kind of job takes its own amount per GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .options import Columns, Flags, Floats, Ints
from .problem import TOLERANCE
from .units import limit_units

LARGEST = 1e100  # the product of two numbers below it is still a number


@dataclass(frozen=True, eq=False)
class ColumnOrder:
    """Columns by group (GPU type) and rising size.

    group, size: (columns,).
    by_group: (columns,) the columns in this order; those of group g lie from begin[g] to begin[g + 1].
    """

    group: Ints
    size: Floats
    by_group: Ints
    begin: Ints

    @classmethod
    def of(cls, usage: Floats, groups: Ints | None, size: Floats | None) -> ColumnOrder:
        """Return the order of columns, for a usage of (kinds, limits, columns).

        By default a column's group is the first limit it uses, and its size is all that it uses.

        Raises:
            ValueError: for groups or sizes of another shape, or that are not finite.
        """
        _, limits, columns = usage.shape
        most = usage.max(axis=0, initial=0.0)
        if groups is None:
            groups = np.where(most.any(axis=0), (most > 0).argmax(axis=0), limits)
        size = most.sum(axis=0) if size is None else np.array(size, float)
        for name, array in (("groups", groups), ("size", size)):
            if np.shape(array) != (columns,):
                raise ValueError(f"{name}: has shape {np.shape(array)}, not ({columns},) as usage says")
            if not np.isfinite(array).all():
                raise ValueError(f"{name}: has entries that are not finite")
        names, group = np.unique(groups, return_inverse=True)
        by_group = np.lexsort((np.arange(columns), most.sum(axis=0), size, group)).astype(np.int64)
        begin = np.searchsorted(group[by_group], np.arange(len(names) + 1)).astype(np.int64)
        return cls(group.astype(np.int64), size, by_group, begin)

    @property
    def groups(self) -> int:
        return len(self.begin) - 1

    @property
    def is_sorted(self) -> bool:
        """Whether the columns already are in this order."""
        return bool((self.by_group == np.arange(len(self.by_group))).all())

    def of_group(self, g: int) -> Ints:
        return self.by_group[self.begin[g] : self.begin[g + 1]]


@dataclass(frozen=True, eq=False)
class Limits:
    """The limits of a program, and what its columns take of them.

    usage: (kinds, limits, columns) as it was given.
    capacity: (limits,) as it was given.
    unit: (limits,) the unit in which `columns` and `room` count each limit.
    chain: (groups,) whether columns take no less of any limit than smaller ones of their group.
    concave: (groups,) whether usage is in proportion to size. Then the best option always is on the concave
        envelope.
    """

    usage: Floats
    capacity: Floats
    unit: Floats
    room: Floats
    columns: Columns
    chain: Flags
    concave: Flags

    @classmethod
    def of(cls, usage: Floats, capacity: Floats, order: ColumnOrder) -> Limits:
        kinds, limits, columns = usage.shape
        unit = limit_units(usage.transpose(1, 0, 2).reshape(limits, kinds * columns))
        counted, room = usage / unit[:, None], capacity / unit
        barred = np.asarray((usage > (capacity + TOLERANCE * unit)[:, None]).any(axis=1))
        flat = counted.transpose(1, 0, 2).reshape(limits, kinds * columns)
        column, limit = np.nonzero(flat.T)
        found = Columns(
            np.searchsorted(column, np.arange(kinds * columns + 1)).astype(np.int64),
            limit.astype(np.int64),
            np.ascontiguousarray(flat.T[column, limit]),
            barred.ravel(),
            np.tile(order.group, kinds),
        )
        chain, concave = np.zeros(order.groups, bool), np.zeros(order.groups, bool)
        for g in range(order.groups):
            members = order.of_group(g)
            chain[g] = (np.diff(counted[:, :, members], axis=2) >= 0).all()
            sized = bool((order.size[members] > 0).all()) and not barred[:, members].any()
            if sized:
                each = counted[:, :, members] / order.size[members]
                concave[g] = np.allclose(each, each[:, :, :1], rtol=1e-12, atol=0)
        return cls(usage, capacity, unit, room, found, chain, concave & chain)

    @property
    def kinds(self) -> int:
        return len(self.usage)

    def is_equal(self, usage: Floats, capacity: Floats) -> bool:
        return np.array_equal(usage, self.usage) and np.array_equal(capacity, self.capacity)


def checked_limits(usage: Floats, capacity: Floats) -> tuple[Floats, Floats]:
    """Return copies of shape (kinds, limits, columns) and (limits,). Usage may be given without kinds.

    Raises:
        ValueError: for shapes that do not agree, and entries that are negative, too large or not finite.
    """
    usage, capacity = np.array(usage, float), np.array(capacity, float)
    if usage.ndim not in (2, 3) or not usage.shape[-2] or not len(usage):
        raise ValueError(
            f"usage: has shape {usage.shape}, "
            "not (limits, columns) or (kinds, limits, columns) with at least one limit"
        )
    usage = usage[None] if usage.ndim == 2 else usage
    if capacity.shape != usage.shape[1:2]:
        raise ValueError(f"capacity: has shape {capacity.shape}, not ({usage.shape[1]},) as usage says")
    for name, array in (("usage", usage), ("capacity", capacity)):
        if not np.isfinite(array).all() or (array < 0).any():
            raise ValueError(f"{name}: has entries that are negative or not finite; 0 or more is accepted")
    if usage.max(initial=0.0) >= LARGEST:
        raise ValueError(f"usage: has an entry of {usage.max():g}; less than {LARGEST:g} is accepted")
    return usage, capacity
