"""An allocation program that changes a little from round to round, and is solved from its last solution."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from ..interrupts import InterruptsWait
from .limits import LARGEST, ColumnOrder, Limits, checked_limits
from .listing import Entries
from .memory import Memory
from .options import Flags, Floats, Ints
from .problem import TOLERANCE, ChoiceProblem, ChoiceSolution, checked_kinds
from .snapshot import Found, Snapshot
from .solver import serve, solve
from .store import RowStore, checked_unique
from .units import unit_of


@dataclass(frozen=True, eq=False)
class _Solved:
    """A solution that was handed out, with copies of its arrays `choice` and `prices`."""

    slots: Ints
    gap: float
    time_limit_s: float
    solution: ChoiceSolution
    choice: Ints
    prices: Floats

    def answers(self, slots: Ints, gap: float, time_limit_s: float) -> bool:
        """Return whether solving again would find nothing else."""
        # More time might also serve more of the required rows.
        proven = self.solution.proven and not self.solution.unmet
        done = proven or time_limit_s <= self.time_limit_s
        return done and gap == self.gap and np.array_equal(slots, self.slots)

    def again(self, seconds: float) -> ChoiceSolution:
        own = replace(self.solution, choice=self.choice.copy(), prices=self.prices.copy())
        return replace(own, seconds=seconds, solver_s=seconds, passes=0, pivots=0)


class ChoiceProgram:
    """A multiple-choice knapsack with several limits: each row picks at most one column, and all picks fit.

    It maximises the sum of the rows' gains. A row gains offset + scale * value in a column. `upsert` gives values
    and `set_weights` the other two. `set_incumbents` gives a row a gain of its own in one column. A change takes
    time only for the rows that it changes.

    `solve` finds prices of the limits that minimise the Lagrangian bound. The options that are best at these
    prices are the optimum, except for a few rows. These are rounded (`rounding.py`). If few options are left,
    HiGHS closes the gap (`exact.py`).

    Args:
        usage: (limits, columns) what each column takes of each limit. It is (kinds, limits, columns) if it depends
            on the kind of the row, which `upsert` gives. So a team's quota is a limit that only its rows use.
        capacity: (limits,).
        groups: (columns,) the group of each column (its GPU type); by default its first limit.
        size: (columns,) how large each is within its group (its GPUs); by default all it uses.

    Raises:
        ValueError: by every method, for an unknown or repeated id, shapes that do not agree, and numbers that are
            not finite or out of range. Also for a change while the program is being solved. The program stays as
            it was.
    """

    def __init__(
        self, usage: Floats, capacity: Floats, groups: Ints | None = None, size: Floats | None = None
    ) -> None:
        usage, capacity = checked_limits(usage, capacity)
        self._order = ColumnOrder.of(usage, groups, size)
        self._limits = Limits.of(usage, capacity, self._order)
        self._lock = threading.Lock()
        self._rows = RowStore(self._order)
        # Groups whose rows hold an envelope, and groups in which only the envelope matters.
        self._chain, self._concave = self._limits.chain, self._limits.concave
        self._memory = Memory()
        self._gain_unit = 1.0  # solvers count gains in this unit
        self._solved: _Solved | None = None  # the last solution, until the program changes

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, id: object) -> bool:
        return id in self._rows

    @property
    def ids(self) -> tuple[str, ...]:
        return self._rows.ids

    @property
    def usage(self) -> Floats:
        """(limits, columns), or (kinds, limits, columns) for several kinds. `set_limits` changes it."""
        return _read_only(self._limits.usage[0] if self._limits.kinds == 1 else self._limits.usage)

    @property
    def grouping(self) -> tuple[Ints, Floats]:
        """(columns,) the group and the size of each column, for another program of the same columns."""
        return self._order.group.copy(), self._order.size.copy()

    @property
    def capacity(self) -> Floats:
        """(limits,). `set_capacity` changes it."""
        return _read_only(self._limits.capacity)

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise ValueError(f"program: cannot be {what} while it is being solved or changed elsewhere")
        try:
            with InterruptsWait():
                yield
        finally:
            self._lock.release()

    def upsert(
        self,
        ids: Sequence[str],
        value: Floats,
        allowed: Flags,
        required: Flags | None = None,
        kind: Ints | None = None,
    ) -> None:
        """Add rows, or replace the options of rows that are there.

        A new row has offset 0, scale 1 and no column to stay in. A replaced row keeps its own. A column is no
        option if another one of its group gains as much and takes no more of anything.

        Args:
            value, allowed: (rows, columns).
            required: (rows,) whether a row must pick something. If not all such rows can, as many as possible do,
                the earlier ones of the order first.
            kind: (rows,) the kind of each row.
        """
        shape = (len(ids), self._limits.usage.shape[2])
        required = np.zeros(len(ids), bool) if required is None else required
        _checked_shapes(shape, value=value, allowed=allowed)
        _checked_shapes(shape[:1], required=required)
        kind = checked_kinds(kind, len(ids), self._limits.kinds)
        for name, array in (("allowed", allowed), ("required", required)):
            if array.dtype != bool:
                raise ValueError(f"{name}: is of {array.dtype}, not of bool")
        checked_unique(ids)
        by_group = self._order.by_group
        if not self._order.is_sorted:
            value, allowed = value[:, by_group], allowed[:, by_group]
        flat = np.flatnonzero(allowed)
        value = value.ravel()[flat].astype(float, copy=False)
        wrong = np.flatnonzero(~(np.abs(value) < LARGEST))
        if len(wrong):
            row, place = divmod(int(flat[wrong[0]]), shape[1])
            where, found = f"value[{ids[row]!r}, {by_group[place]}]", value[wrong[0]]
            raise ValueError(f"{where}: is {found}, not a finite number below {LARGEST:g}, where it is allowed")
        with self._alone("changed"):
            self._solved = None
            self._rows.upsert(ids, flat, value, required, kind, self._chain)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove rows."""
        with self._alone("changed"):
            self._rows.slots(ids)
            self._solved = None
            self._rows.remove(ids)

    def set_weights(self, ids: Sequence[str], offset: Floats, scale: Floats) -> None:
        """Set the rows' gains to offset + scale * value, for scale > 0."""
        _checked_shapes((len(ids),), offset=offset, scale=scale)
        if not ((np.abs(offset) < LARGEST).all() and (scale < LARGEST).all() and (scale > 0).all()):
            raise ValueError(f"offset, scale: must be finite, below {LARGEST:g} in size, and scale above 0")
        with self._alone("changed"):
            if self._rows.change(self._rows.slots(ids), offset=offset, scale=scale):
                self._solved = None

    def set_incumbents(self, ids: Sequence[str], column: Ints, gain: Floats) -> None:
        """Let each row gain `gain` in a column of its own (-1: none), if its value there does not gain more."""
        _checked_shapes((len(ids),), column=column, gain=gain)
        columns = self._limits.usage.shape[2]
        if column.dtype.kind not in "iu" or not ((column >= -1) & (column < columns)).all():
            raise ValueError(f"column: must be -1 (none) to {columns - 1}")
        if not (np.abs(gain[column >= 0]) < LARGEST).all():
            raise ValueError(f"gain: must be finite, and below {LARGEST:g} in size")
        with self._alone("changed"):
            if self._rows.set_incumbents(self._rows.slots(ids), column, gain):
                self._solved = None

    def set_capacity(self, capacity: Floats) -> None:
        """Change the capacities of the limits."""
        self.set_limits(self._limits.usage, capacity)

    def set_limits(self, usage: Floats, capacity: Floats) -> bool:
        """Change the limits of the same columns and kinds. Return whether the rows are still there.

        They are all gone, and must be upserted again, if options that were left out may matter now.
        """
        usage, capacity = checked_limits(usage, capacity)
        kinds, columns = self._limits.kinds, self._limits.usage.shape[2]
        if usage.shape[2] != columns:
            raise ValueError(f"usage: has {usage.shape[2]} columns, not {columns}")
        if len(usage) != kinds:
            raise ValueError(f"usage: has {len(usage)} kinds of rows, not {kinds}")
        with self._alone("changed"):
            old = self._limits
            if old.is_equal(usage, capacity):
                return True
            self._solved, self._limits = None, Limits.of(usage, capacity, self._order)
            if not np.array_equal(old.unit, self._limits.unit):
                self._memory = Memory()
            chain, concave = self._limits.chain, self._limits.concave
            if (chain | ~self._chain).all():
                if (
                    not np.array_equal(old.usage, usage)
                    or (old.columns.barred != self._limits.columns.barred).any()
                ):
                    self._rows.forget_states()
                self._concave = concave & self._chain  # rows hold no envelope of other groups
                return True
            self._chain, self._concave = chain, concave
            self._rows = RowStore(self._order)
            return False

    def required(self, order: Sequence[str]) -> Flags:
        """Return (rows,) whether each row must pick something."""
        return self._rows.of("required", self._rows.slots(order))

    def kinds(self, order: Sequence[str]) -> Ints:
        """Return (rows,) the kind of each row."""
        return self._rows.of("kind", self._rows.slots(order))

    def entries(self, order: Sequence[str]) -> Entries:
        """Return the options of rows that can matter, for other solvers."""
        return self._rows.entries(self._rows.slots(order), self._limits)

    @classmethod
    def of(cls, problem: ChoiceProblem) -> tuple[ChoiceProgram, list[str]]:
        """Return a program of a problem's rows, and their ids in its order."""
        program = cls(problem.usage, problem.capacity)
        ids = [str(i) for i in range(len(problem.value))]
        program.upsert(ids, problem.value, problem.allowed, problem.required, problem.kinds)
        return program, ids

    def solve(self, order: Sequence[str], gap: float = 1e-3, time_limit_s: float = 60.0) -> ChoiceSolution:
        """Return picks for the rows in `order`, which must be all rows. There always is a plan.

        The search ends when the plan is proven to be within the relative `gap` of the optimum. It starts no
        further step after the time limit. If rows are equal, the first ones of the order win.
        """
        start_s = time.perf_counter()
        for name, number in (("gap", gap), ("time_limit_s", time_limit_s)):
            if not number >= 0:
                raise ValueError(f"{name}: {number} is not 0 or more")
        if len(order) != len(self._rows):
            raise ValueError(f"order: has {len(order)} ids, the program {len(self._rows)} rows")
        with self._alone("solved"):
            slots = self._rows.slots(order)
            if self._solved is not None and self._solved.answers(slots, gap, time_limit_s):
                return self._solved.again(time.perf_counter() - start_s)
            snapshot = self._snapshot(slots)
            found, unmet = self._find(snapshot, gap, start_s + time_limit_s)
            # The bound shows if gains have become much larger or smaller since the last solve.
            if self._recount(abs(found.bound) / max(len(slots), 1)):
                snapshot = self._snapshot(slots)
                found, unmet = self._find(snapshot, gap, start_s + time_limit_s)
            relative = (found.bound - found.objective) / max(abs(found.bound), TOLERANCE)
            choice = snapshot.columns_of(found.picks)
            prices = found.prices * (self._gain_unit / self._limits.unit)
            seconds = time.perf_counter() - start_s
            solution = ChoiceSolution(
                choice=choice.copy(),
                objective=found.objective * self._gain_unit,
                bound=found.bound * self._gain_unit,
                gap=relative,
                prices=prices.copy(),
                proven=relative <= gap + TOLERANCE,
                unmet=tuple(i for i in unmet if choice[i] < 0),  # others got what was left
                seconds=seconds,
                solver_s=seconds,
                entries=snapshot.options,
                passes=found.passes,
                pivots=found.pivots,
            )
            self._solved = _Solved(slots, gap, time_limit_s, solution, choice, prices)
            return solution

    def _snapshot(self, slots: Ints) -> Snapshot:
        return self._rows.snapshot(slots, self._limits, self._concave, self._chain, self._gain_unit)

    def _recount(self, gain_per_row: float) -> bool:
        """Change the unit of gains if a row's gain is far from 1 in it. Return whether it was changed."""
        unit = unit_of(gain_per_row)
        if unit != 1.0:
            self._gain_unit, self._memory = self._gain_unit * unit, Memory()
        return unit != 1.0

    def _find(self, snapshot: Snapshot, gap: float, until_s: float) -> tuple[Found, tuple[int, ...]]:
        """Return the plan that is found by `until_s`, and the required rows that cannot be served."""
        base: Ints | None = None
        unmet: tuple[int, ...] = ()
        if snapshot.program.rows.required[snapshot.order].any():
            base, unmet = serve(snapshot, until_s - time.perf_counter())
            snapshot = snapshot.without_requirements(unmet)
        return solve(snapshot, self._memory, base, gap, until_s - time.perf_counter()), unmet


def _read_only(array: Floats) -> Floats:
    seen = array.view()
    seen.flags.writeable = False
    return seen


def _checked_shapes(shape: tuple[int, ...], **arrays: np.ndarray) -> None:
    for name, array in arrays.items():
        if np.shape(array) != shape:
            raise ValueError(f"{name}: has shape {np.shape(array)}, not {shape}")
