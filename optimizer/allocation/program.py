"""A choice program that changes a little from round to round, and is solved again from where it was."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from ..interrupts import InterruptsWait
from .exact import meet_required
from .listing import differ, list_options, lists
from .memory import Memory
from .near import UNKNOWN
from .options import BEGIN, END, FULL_BEGIN, FULL_END, OptionPool, put_options, sift
from .problem import TOLERANCE, ChoiceProblem, ChoiceSolution
from .rows import UNKNOWN_PICK, Columns, Flags, Floats, Ints, Rows, columns_of, sampled_gain
from .snapshot import Found, Snapshot
from .solver import solve
from .units import limit_units, unit_of

_SAMPLE = 16  # rows looked at for the size of gains, about
LARGEST = 1e100  # of what is given: products of two are numbers still


@dataclass(frozen=True)
class Entries:
    """Every option there is, flat and sorted by row: row (in the order asked for), column, gain."""

    row: Ints
    column: Ints
    gain: Floats


@dataclass(frozen=True, eq=False)
class _Solved:
    """A solution that was handed out, with arrays that nobody else has: choice, prices."""

    slots: Ints
    gap: float
    time_limit_s: float
    solution: ChoiceSolution
    choice: Ints
    prices: Floats

    def answers(self, slots: Ints, gap: float, time_limit_s: float) -> bool:
        """Whether solving again would find nothing else."""
        # Whom it leaves unmet is decided within the time limit too.
        proven = self.solution.proven and not self.solution.unmet
        done = proven or time_limit_s <= self.time_limit_s
        return done and gap == self.gap and np.array_equal(slots, self.slots)

    def again(self, seconds: float) -> ChoiceSolution:
        own = replace(self.solution, choice=self.choice.copy(), prices=self.prices.copy())
        return replace(own, seconds=seconds, solver_s=seconds, passes=0, pivots=0)


class ChoiceProgram:
    """Rows by id, each picking at most one column; what is picked must fit.

    Maximises the sum of gain[id, c] over the picks, with usage @ (number of picks of each column) <= capacity. A
    row gains offset + scale * value (`put` gives the values, `weigh` the other two), and in one column it may
    gain something of its own (`stay`): what changes for every row in every round is a few numbers each. A
    change costs what it changes.

    `solve` looks for prices, one a limit, at which what the rows want meets the capacities. Any prices prove a
    bound on all plans, and the best ones that of the LP relaxation; taking what is best at them is within a few
    rows of the optimum, and chains of changes put these right (`chains.py`), or an exact search where few rows may
    pick several things (`refine.py`). What is left of the gap prices of rows close (`closing.py`).

    Args:
        usage: (limits, columns) what each column takes of each limit.
        capacity: (limits,).
        groups: (columns,) the kind of each column (its GPU type); by default those of one first limit.
        size: (columns,) how large each is within its group (its GPUs); by default all it uses.

    Raises:
        ValueError: by every method, for an unknown or repeated id, shapes that do not agree and numbers that are
            not finite or out of range, in one sentence; and for a change while the program is being solved.
            The program is then as it was.
    """

    def __init__(
        self, usage: Floats, capacity: Floats, groups: Ints | None = None, size: Floats | None = None
    ) -> None:
        usage, capacity = _checked_limits(usage, capacity)
        columns = usage.shape[1]
        if groups is None:
            used = usage > 0
            groups = np.where(used.any(axis=0), used.argmax(axis=0), len(usage))
        size = usage.sum(axis=0) if size is None else np.array(size, float)
        for name, array in (("groups", groups), ("size", size)):
            if np.shape(array) != (columns,):
                raise ValueError(f"{name}: has shape {np.shape(array)}, not ({columns},) as usage says")
            if not np.isfinite(array).all():
                raise ValueError(f"{name}: has entries that are not finite")
        kinds, group = np.unique(groups, return_inverse=True)
        self._group, self._size = group.astype(np.int64), size
        self._by_group = np.lexsort((np.arange(columns), usage.sum(axis=0), size, group)).astype(np.int64)
        self._is_ordered = bool((self._by_group == np.arange(columns)).all())
        self._group_begin = np.searchsorted(group[self._by_group], np.arange(len(kinds) + 1)).astype(np.int64)
        self._lock = threading.Lock()
        self._pool = OptionPool()
        self._slot: dict[str, int] = {}
        self._asked: tuple[list[str], Ints] = [], np.empty(0, np.int64)  # ids, and their slots
        self._spare: list[int] = []
        self._stamps = 0
        self._rows: dict[str, np.ndarray] = {}
        self._grow(64)
        self._memory = Memory()
        self._gain_unit, self._limit_unit = 1.0, np.ones(0)  # what is solved counts in these
        self._solved: _Solved | None = None  # what is still true of the last solve
        self._use(usage, capacity)
        self._chain = self._chains()

    def _use(self, usage: Floats, capacity: Floats) -> None:
        self._usage, self._capacity = usage, capacity
        units = limit_units(usage)
        if not np.array_equal(units, self._limit_unit):
            self._limit_unit, self._memory = units, Memory()
        barred = self._barred(usage, capacity)
        usage, capacity = self._counted_limits = usage / units[:, None], capacity / units
        column, limit = np.nonzero(usage.T)
        begin = np.searchsorted(column, np.arange(usage.shape[1] + 1))
        if self._slot and (barred != self._columns.barred).any():
            self._stamp(np.fromiter(self._slot.values(), np.int64, len(self._slot)))
        self._columns: Columns = Columns(
            begin.astype(np.int64),
            limit.astype(np.int64),
            np.ascontiguousarray(usage.T[column, limit]),
            barred,
            self._group,
        )
        # Where one limit alone counts, in proportion to size, nothing but the envelope matters at any price.
        self._concave = np.zeros(len(self._group_begin) - 1, bool)
        for g in range(len(self._concave)):
            mine = self._by_group[self._group_begin[g] : self._group_begin[g + 1]]
            used = np.flatnonzero(usage[:, mine].any(axis=1))
            if len(used) == 1 and (self._size[mine] > 0).all() and not barred[mine].any():
                each = usage[used[0], mine] / self._size[mine]
                self._concave[g] = bool(np.allclose(each, each[0], rtol=1e-12, atol=0))

    @staticmethod
    def _barred(usage: Floats, capacity: Floats) -> Flags:
        return np.asarray((usage > (capacity + TOLERANCE * limit_units(usage))[:, None]).any(axis=0))

    def _chains(self) -> Flags:
        ordered = np.diff(self._usage[:, self._by_group], axis=1, prepend=0) >= 0
        ordered[:, self._group_begin[:-1][self._group_begin[:-1] < ordered.shape[1]]] = True
        starts, ends = self._group_begin[:-1], self._group_begin[1:]
        return np.array([bool(ordered[:, a:b].all()) for a, b in zip(starts, ends, strict=True)], dtype=bool)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_asked")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.Lock(), _asked=([], np.empty(0, np.int64)))

    def __len__(self) -> int:
        return len(self._slot)

    def __contains__(self, id: object) -> bool:
        return id in self._slot

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._slot)

    @property
    def usage(self) -> Floats:
        """(limits, columns) to be read; `set_limits` changes it."""
        return _read_only(self._usage)

    @property
    def capacity(self) -> Floats:
        """(limits,) to be read; `set_capacity` changes it."""
        return _read_only(self._capacity)

    def _grow(self, size: int) -> None:
        groups = len(self._group_begin) - 1
        kinds: dict[str, type] = dict.fromkeys(
            ("start", "count", "stay_column", "settled", "key", "plan", "stamp"), np.int64
        )
        kinds |= {"offset": float, "scale": float, "stay_gain": float, "required": bool, "state": np.int8}
        had = len(self._rows["start"]) if self._rows else 0
        rows: dict[str, np.ndarray] = {name: np.zeros(size, kind) for name, kind in kinds.items()}
        # What is read together lies together: rounds spend a good part of their time waiting for memory.
        rows["ranges"] = np.zeros((size, groups, 4), np.int32)
        rows["top"] = np.zeros((size, groups), np.int32)
        for name, old in self._rows.items():
            rows[name][:had] = old
        self._rows = rows
        self._spare += range(size - 1, had - 1, -1)

    def _stamp(self, slots: Ints) -> None:
        self._rows["stamp"][slots] = self._stamps + np.arange(len(slots))
        self._stamps += len(slots)

    def stamps(self, order: Sequence[str]) -> Ints:
        """(rows,) numbers that no other row of this program had or has; a row gets another with other options.

        Options are the columns of `entries`, and whether one is required; what they gain is not looked at.
        """
        return np.asarray(self._rows["stamp"][self._slots(order)])

    def _slots(self, ids: Sequence[str]) -> Ints:
        """Of ids that are all there, each once."""
        # Rounds ask for the same rows again and again, and equal lists of the same strings are soon compared.
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
            _checked_unique(ids)
        if 2 * len(slots) > len(self._slot):
            self._asked = list(ids), slots
        return slots

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise ValueError(f"program: cannot be {what} while it is being solved or changed elsewhere")
        try:
            with InterruptsWait():
                yield
        finally:
            self._lock.release()

    def put(self, ids: Sequence[str], value: Floats, allowed: Flags, required: Flags | None = None) -> None:
        """Add rows, or replace the options of rows there are; value, allowed: (rows, columns), required: (rows,).

        A new row has offset 0, scale 1 and no column to stay in; one that is replaced keeps its own. A column is
        no option where one of its group gains as much and takes no more of anything. Of a required row some option
        must be picked; where not all can have one as many as can do, of as many the earlier ones in the order.
        """
        shape = (len(ids), self._usage.shape[1])
        required = np.zeros(len(ids), bool) if required is None else required
        _checked_shapes(shape, value=value, allowed=allowed)
        _checked_shapes(shape[:1], required=required)
        for name, array in (("allowed", allowed), ("required", required)):
            if array.dtype != bool:
                raise ValueError(f"{name}: is of {array.dtype}, not of bool")
        _checked_unique(ids)
        if not self._is_ordered:
            value, allowed = value[:, self._by_group], allowed[:, self._by_group]
        flat = np.flatnonzero(allowed)
        value = value.ravel()[flat].astype(float, copy=False)
        wrong = np.flatnonzero(~(np.abs(value) < LARGEST))
        if len(wrong):
            row, place = divmod(int(flat[wrong[0]]), shape[1])
            where = f"value[{ids[row]!r}, {self._by_group[place]}]"
            found = value[wrong[0]]
            raise ValueError(f"{where}: is {found}, not a finite number below {LARGEST:g}, where it is allowed")
        with self._alone("changed"):
            self._solved = None
            self._put(ids, flat, value, required)

    def _put(self, ids: Sequence[str], flat: Ints, value: Floats, required: Flags) -> None:
        """flat, value: as `sift` takes them."""
        ranges = np.empty((len(ids), len(self._group_begin) - 1, 4), np.int32)
        counts = np.empty(len(ids), np.int64)
        columns = (self._by_group, self._group_begin, self._size, self._chain)
        column, gain = sift(flat, value, *columns, counts, ranges)
        self._pool.expect(counts)
        slots = np.fromiter(map(self._slot.get, ids, repeat(-1)), np.int64, len(ids))
        new = np.flatnonzero(slots < 0)
        while len(self._spare) < len(new):
            self._grow(2 * len(self._rows["start"]))
        rows, pool = self._rows, self._pool
        for i in new.tolist():
            slots[i] = self._slot[ids[i]] = self._spare.pop()
        fresh = slots[new]
        rows["start"][fresh] = rows["stay_column"][fresh] = rows["stamp"][fresh] = -1
        rows["offset"][fresh], rows["scale"][fresh] = 0.0, 1.0
        start = rows["start"][slots]
        others = differ(slots, start, rows["ranges"], pool.column, ranges, counts, column)
        others |= rows["required"][slots] != required
        begin = pool.move(start, rows["count"][slots], counts)
        where = pool.column, pool.value, rows["start"], rows["count"], rows["ranges"]
        put_options(slots, begin, counts, column, gain, ranges, *where)
        rows["required"][slots] = required
        rows["state"][slots] = UNKNOWN
        rows["key"][slots] = rows["plan"][slots] = UNKNOWN_PICK
        self._stamp(slots[others])

    def remove(self, ids: Sequence[str]) -> None:
        with self._alone("changed"):
            slots = self._slots(ids)
            self._solved = None
            self._rows["state"][slots] = UNKNOWN
            self._rows["key"][slots] = self._rows["plan"][slots] = UNKNOWN_PICK
            self._pool.release(self._rows["start"][slots], self._rows["count"][slots])
            self._spare += slots.tolist()
            for id in ids:
                del self._slot[id]
            if len(slots):
                self._asked = [], slots[:0]

    def weigh(self, ids: Sequence[str], offset: Floats, scale: Floats) -> None:
        """The rows' gains become offset + scale * value; scale > 0."""
        _checked_shapes((len(ids),), offset=offset, scale=scale)
        if not ((np.abs(offset) < LARGEST).all() and (scale < LARGEST).all() and (scale > 0).all()):
            raise ValueError(f"offset, scale: must be finite, below {LARGEST:g} in size, and scale above 0")
        with self._alone("changed"):
            self._change(self._slots(ids), offset=offset, scale=scale)

    def stay(self, ids: Sequence[str], column: Ints, gain: Floats) -> None:
        """What each row gains in a column of its own, -1: none. If that is one of its options, the more counts."""
        _checked_shapes((len(ids),), column=column, gain=gain)
        if column.dtype.kind not in "iu" or not ((column >= -1) & (column < self._usage.shape[1])).all():
            raise ValueError(f"column: must be -1 (none) to {self._usage.shape[1] - 1}")
        if not (np.abs(gain[column >= 0]) < LARGEST).all():
            raise ValueError(f"gain: must be finite, and below {LARGEST:g} in size")
        with self._alone("changed"):
            slots, gain = self._slots(ids), np.where(column >= 0, gain, 0.0)
            r = self._rows
            before = r["stay_column"][slots]
            moved = np.flatnonzero(before != column)
            at = slots[moved]
            frame = r["ranges"][at], self._pool.column
            self._stamp(at[~(lists(*frame, before[moved]) & lists(*frame, column[moved]))])
            self._change(slots, stay_column=column, stay_gain=gain)

    def _change(self, slots: Ints, **arrays: np.ndarray) -> None:
        """Write the rows' arrays; only rows to which that makes a difference count as changed."""
        changed = np.zeros(len(slots), bool)
        for name, array in arrays.items():
            changed |= self._rows[name][slots] != array
            self._rows[name][slots] = array
        if changed.any():
            self._rows["state"][slots[changed]] = UNKNOWN
            self._solved = None

    def set_capacity(self, capacity: Floats) -> None:
        self.set_limits(self._usage, capacity)

    def set_limits(self, usage: Floats, capacity: Floats) -> bool:
        """Other limits of the same columns. False where that makes options count that were left out before.

        All rows are gone then, and must be put again.
        """
        usage, capacity = _checked_limits(usage, capacity)
        if usage.shape[1] != self._usage.shape[1]:
            raise ValueError(f"usage: has {usage.shape[1]} columns, not {self._usage.shape[1]}")
        with self._alone("changed"):
            if np.array_equal(usage, self._usage) and np.array_equal(capacity, self._capacity):
                return True
            self._solved = None
            barred = self._columns.barred
            if not (np.array_equal(usage, self._usage) and np.array_equal(barred, self._barred(usage, capacity))):
                self._rows["state"][:] = UNKNOWN
            self._use(usage, capacity)
            chain = self._chains()
            if (chain | ~self._chain).all():
                self._concave &= self._chain  # the others' rows have no envelope yet
                return True
            self._chain = chain
            self._memory.basic = None  # of rows that are gone
            self._pool, self._slot, self._spare, self._rows = OptionPool(), {}, [], {}
            self._asked = [], np.empty(0, np.int64)
            self._grow(64)
            return False

    def required(self, order: Sequence[str]) -> Flags:
        """(rows,) which of the rows must pick something."""
        return np.asarray(self._rows["required"][self._slots(order)])

    def entries(self, order: Sequence[str]) -> Entries:
        """The rows in `order` for a solver that starts from nothing, without options that can never matter."""
        slots = self._slots(order)
        r, pool = self._rows, self._pool
        groups = self._concave.shape[0]
        begin = r["ranges"][slots, 0, FULL_BEGIN] if groups else np.zeros(len(slots), np.int32)
        end = r["ranges"][slots, -1, FULL_END] if groups else begin
        most = int((end - begin).sum()) + len(slots)
        row, column, gain = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
        frame = (r["offset"], r["scale"], r["stay_column"], r["stay_gain"])
        count = list_options(
            slots, begin, end, *frame, pool.column, pool.value, self._columns.barred, row, column, gain
        )
        return Entries(row[:count], column[:count], gain[:count])

    @classmethod
    def of(cls, problem: ChoiceProblem) -> tuple[ChoiceProgram, list[str]]:
        """A program of a problem's rows, and their ids in its order."""
        program = cls(problem.usage, problem.capacity)
        ids = [str(i) for i in range(len(problem.value))]
        program.put(ids, problem.value, problem.allowed, problem.required)
        return program, ids

    def solve(self, order: Sequence[str], gap: float = 1e-4, time_limit_s: float = 60.0) -> ChoiceSolution:
        """Picks for the rows in `order`, which must be all there are.

        Of rows that want one and the same thing the first in that order have it at a first solve; later those that
        had it may keep it. Where they may have several things, what fills the capacities best decides.
        It ends where the plan is proven to be within `gap` of the optimum, relative, and starts no further search
        after the time limit, until which HiGHS may search where the program is small. There is always a plan.
        """
        start_s = time.perf_counter()
        for name, number in (("gap", gap), ("time_limit_s", time_limit_s)):
            if not number >= 0:
                raise ValueError(f"{name}: {number} is not 0 or more")
        if len(order) != len(self._slot):
            raise ValueError(f"order: has {len(order)} ids, the program {len(self._slot)} rows")
        with self._alone("solved"):
            slots = self._slots(order)
            if self._solved is not None and self._solved.answers(slots, gap, time_limit_s):
                return self._solved.again(time.perf_counter() - start_s)
            snapshot = self._snapshot(slots)
            begins = self._memory.prices is None
            # Where gains are of another size than at the last solve, a sample shows it before time is lost.
            begins = begins or unit_of(sampled_gain(snapshot.rows, _SAMPLE)) != 1.0
            if begins and self._recount(snapshot):
                snapshot = self._snapshot(slots)
            found, unmet = self._find(snapshot, gap, start_s + time_limit_s)
            # Where those of few rows are, it shows in what a row is found to be worth.
            if unit_of(abs(found.bound) / max(len(slots), 1)) != 1.0 and self._recount(snapshot):
                snapshot = self._snapshot(slots)
                found, unmet = self._find(snapshot, gap, start_s + time_limit_s)
            relative = (found.bound - found.objective) / max(abs(found.bound), TOLERANCE)
            choice = columns_of(snapshot.rows, found.picks)
            prices = found.prices * (self._gain_unit / self._limit_unit)
            seconds = time.perf_counter() - start_s
            solution = ChoiceSolution(
                choice=choice.copy(),
                objective=found.objective * self._gain_unit,
                bound=found.bound * self._gain_unit,
                gap=relative,
                prices=prices.copy(),
                proven=relative <= gap + TOLERANCE,
                unmet=tuple(i for i in unmet if choice[i] < 0),  # others were given what was left
                seconds=seconds,
                solver_s=seconds,
                entries=snapshot.options,
                passes=found.passes,
                pivots=found.pivots,
            )
            self._solved = _Solved(slots, gap, time_limit_s, solution, choice, prices)
            return solution

    def _recount(self, snapshot: Snapshot) -> bool:
        """Whether gains have to be counted in another unit from now on, for a row's to be about 1."""
        unit = unit_of(snapshot.worth_of_a_row())
        if unit != 1.0:
            self._gain_unit, self._memory = self._gain_unit * unit, Memory()
        return unit != 1.0

    def _find(self, snapshot: Snapshot, gap: float, until_s: float) -> tuple[Found, tuple[int, ...]]:
        """What is found by `until_s`, of time.perf_counter(), and places of required rows that cannot be met."""
        rows = snapshot.rows
        unmet: tuple[int, ...] = ()
        base = None
        if rows.required[rows.order].any():
            base, unmet = meet_required(snapshot, until_s - time.perf_counter())
            rows_of = rows.order[rows.required[rows.order]]
            snapshot.state[rows_of] = UNKNOWN  # which of them can be met others decide
            required = rows.required.copy()
            required[rows.order[list(unmet)]] = False
            snapshot = replace(
                snapshot,
                rows=rows._replace(required=required),
                everything=snapshot.everything._replace(required=required),
            )
        return solve(snapshot, self._memory, base, gap, until_s - time.perf_counter()), unmet

    def _snapshot(self, slots: Ints) -> Snapshot:
        r, pool = self._rows, self._pool
        gains = (r["offset"], r["scale"], r["stay_gain"])
        if self._gain_unit != 1.0:
            gains = (gains[0] / self._gain_unit, gains[1] / self._gain_unit, gains[2] / self._gain_unit)
        own = (*gains[:2], r["stay_column"], gains[2], r["required"], r["top"])
        frame = (pool.column, pool.value, *own)
        all_options = r["ranges"]
        ranges, enveloped = all_options, self._concave
        if not enveloped.all():
            ranges = all_options.copy()
            ranges[:, ~enveloped, :FULL_BEGIN] = all_options[:, ~enveloped, FULL_BEGIN:]
        begin, end = ranges[:, :, BEGIN], ranges[:, :, END]
        rows = Rows(slots, begin, end, enveloped, self._chain, *frame)
        begin, end = all_options[:, :, FULL_BEGIN], all_options[:, :, FULL_END]
        everything = Rows(slots, begin, end, np.zeros(len(enveloped), bool), self._chain, *frame)
        kept = (r["state"], r["settled"], r["key"], r["plan"])
        return Snapshot(rows, everything, self._columns, *self._counted_limits, *kept)


def _checked_limits(usage: Floats, capacity: Floats) -> tuple[Floats, Floats]:
    usage, capacity = np.array(usage, float), np.array(capacity, float)
    if usage.ndim != 2 or not len(usage):
        raise ValueError(f"usage: has shape {usage.shape}, not (limits, columns) with at least one limit")
    if capacity.shape != (len(usage),):
        raise ValueError(f"capacity: has shape {capacity.shape}, not ({len(usage)},) as usage says")
    for name, array in (("usage", usage), ("capacity", capacity)):
        if not np.isfinite(array).all() or (array < 0).any():
            raise ValueError(f"{name}: has entries that are negative or not finite; 0 or more is accepted")
    if usage.max(initial=0.0) >= LARGEST:
        raise ValueError(f"usage: has an entry of {usage.max():g}; less than {LARGEST:g} is accepted")
    return usage, capacity


def _read_only(array: Floats) -> Floats:
    seen = array.view()
    seen.flags.writeable = False
    return seen


def _checked_shapes(shape: tuple[int, ...], **arrays: np.ndarray) -> None:
    for name, array in arrays.items():
        if np.shape(array) != shape:
            raise ValueError(f"{name}: has shape {np.shape(array)}, not {shape}")


def _checked_unique(ids: Sequence[str]) -> None:
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise ValueError(f"id: {twice!r} is given twice")
