"""A linear program of requests that share resources, changed a little at a time and solved from where it was.

COpter's continual optimisation (section 4.3): a program whose requests come and go slowly is compiled once, each
change costs what it changes, and every solve starts from the last one's primal and dual.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ..linear_program import LinearProgram
from .shim import Shim
from .solution import Solution
from .solver import Solver
from .storage import CAPACITY, CONSTRAINT, OWN, Block, Storage, ranges

# Dense, one per variable; a number, the same for all; or (indices, values).
Coefficients = float | Sequence[float] | np.ndarray | tuple[Any, Any]
Triplets = tuple[np.ndarray, np.ndarray, np.ndarray]
ALL = "x"  # the request that holds all of a plain LP


@dataclass(frozen=True, eq=False)
class Row:
    """lower <= coefficients @ x <= upper over the variables of one request.

    coefficients: one per variable, a number (the same for all), or (indices, values).
    """

    coefficients: Coefficients
    lower: float = -math.inf
    upper: float = math.inf


@dataclass(slots=True)
class _Request:
    block: Block
    resources: set[str]
    constraints: set[str] = field(default_factory=set)


class ContinualProgram:
    """minimise (or maximise) cost @ x over requests' variables, within capacities, constraints and requests' rows.

    Every change costs what it changes and is either made whole or refused with the program left as it was.
    The columns of `linear_program` and `Solution.values` are the requests' in the order in which they were added;
    its rows are capacities, then constraints, then the requests' own rows, each in that order.

    Raises (all methods):
        ValueError: for an id that is unknown or taken, lengths that do not agree, sides that hold no number, and
            costs or coefficients that are not finite.
        RuntimeError: for a change or a second solve while the program is being solved.
    """

    def __init__(self, maximise: bool = False) -> None:
        self.maximise = maximise
        self._storage = Storage()
        self._requests: dict[Hashable, _Request] = {}
        self._capacities: dict[str, int] = {}
        self._users: dict[str, set[Hashable]] = {}
        self._constraints: dict[str, int] = {}
        self._members: dict[str, set[Hashable]] = {}
        self._solver = Solver(self._storage)
        self._busy = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_busy"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._busy = threading.Lock()

    def __len__(self) -> int:
        """Live variables."""
        return self._storage.columns.live

    def __contains__(self, id: Hashable) -> bool:
        return id in self._requests

    @property
    def requests(self) -> tuple[Hashable, ...]:
        return tuple(self._requests)

    # Resources and constraints

    def set_capacity(self, resource: str, upper: float, lower: float = -math.inf) -> None:
        """lower <= what all requests use of `resource` <= upper; a resource not seen before is added."""
        sides = _sides(f"capacity of {resource!r}", lower, upper)
        with self._changing():
            if resource not in self._capacities:
                self._capacities[resource] = self._storage.take_rows(1, CAPACITY)
                self._users[resource] = set()
            self._set_sides(self._capacities[resource], sides)

    def remove_capacity(self, resource: str) -> None:
        """The resource, and what requests use of it, is no longer part of the program."""
        self._known(self._capacities, "resource", resource)
        with self._changing():
            users = self._users.pop(resource)
            for id in users:
                self._requests[id].resources.discard(resource)
            self._drop_row(self._capacities.pop(resource), users)

    def add_constraint(
        self,
        name: str,
        terms: Mapping[tuple[Hashable, int], float],
        lower: float = -math.inf,
        upper: float = math.inf,
    ) -> None:
        """lower <= sum of coefficient * variable <= upper, over {(request, index): coefficient}.

        A request that is removed takes its terms along; the constraint stays.
        """
        if name in self._constraints:
            raise ValueError(f"constraint {name!r}: is there already; a name that is not taken is accepted")
        sides = _sides(f"constraint {name!r}", lower, upper)
        by_request: dict[Hashable, list[tuple[int, float]]] = {}
        for (id, index), value in terms.items():
            columns = self._request(id).block.columns
            if not 0 <= index < columns:
                raise ValueError(f"constraint {name!r}: {id!r} has no variable {index}, only 0 to {columns - 1}")
            if not math.isfinite(value):
                raise ValueError(f"constraint {name!r}: coefficient of {(id, index)} is {value}, not finite")
            if value:
                by_request.setdefault(id, []).append((index, value))
        with self._changing():
            slot = self._storage.take_rows(1, CONSTRAINT)
            self._constraints[name], self._members[name] = slot, set(by_request)
            self._set_sides(slot, sides)
            for id, mine in by_request.items():
                request = self._requests[id]
                column, row, held = self._storage.read(request.block)
                at = np.array([i for i, _ in mine], dtype=np.int64)
                added = np.array([v for _, v in mine], dtype=float)
                self._storage.write(
                    request.block,
                    np.concatenate([column, at]),
                    np.concatenate([row, np.full(len(mine), slot, dtype=np.int32)]),
                    np.concatenate([held, added]),
                )
                request.constraints.add(name)

    def change_constraint(self, name: str, lower: float = -math.inf, upper: float = math.inf) -> None:
        """New sides for a constraint."""
        self._known(self._constraints, "constraint", name)
        sides = _sides(f"constraint {name!r}", lower, upper)
        with self._changing():
            self._set_sides(self._constraints[name], sides)

    def remove_constraint(self, name: str) -> None:
        self._known(self._constraints, "constraint", name)
        with self._changing():
            members = self._members.pop(name)
            for id in members:
                self._requests[id].constraints.discard(name)
            self._drop_row(self._constraints.pop(name), members)

    # Requests

    def add_request(
        self,
        id: Hashable,
        cost: Sequence[float] | np.ndarray,
        uses: Mapping[str, Coefficients] | None = None,
        rows: Sequence[Row] = (),
        lower: float | Sequence[float] | np.ndarray = 0.0,
        upper: float | Sequence[float] | np.ndarray = math.inf,
    ) -> None:
        """One variable per cost; uses: {resource: coefficients}; rows: over these variables alone."""
        if id in self._requests:
            raise ValueError(f"request {id!r}: is there already; an id that is not taken is accepted")
        costs = _finite(f"cost of {id!r}", cost)
        count = len(costs)
        bounds = _bounds(id, lower, upper, count)
        used = self._uses(id, uses or {}, count)
        own, sides = _rows(id, rows, count)
        with self._changing():
            self._place(id, costs, bounds, used, own, sides)
            self._note_uses(id, uses or {})

    def change_request(
        self,
        id: Hashable,
        cost: Sequence[float] | np.ndarray | None = None,
        uses: Mapping[str, Coefficients] | None = None,
        rows: Sequence[Row] | None = None,
        lower: float | Sequence[float] | np.ndarray | None = None,
        upper: float | Sequence[float] | np.ndarray | None = None,
    ) -> None:
        """Whatever is given replaces what the request had; the number of variables stays."""
        request = self._request(id)
        block, storage = request.block, self._storage
        mine = slice(block.column, block.column + block.columns)
        costs = None if cost is None else _finite(f"cost of {id!r}", cost, block.columns)
        bounds = None
        if lower is not None or upper is not None:
            low = storage.lower[mine] if lower is None else lower
            high = storage.upper[mine] if upper is None else upper
            bounds = _bounds(id, low, high, block.columns)
        used = None if uses is None else self._uses(id, uses, block.columns)
        defined = None if rows is None else _rows(id, rows, block.columns)
        with self._changing():
            if costs is not None:
                storage.cost[mine] = -costs if self.maximise else costs
            if bounds is not None:
                storage.lower[mine], storage.upper[mine] = bounds
            if used is not None or defined is not None:
                self._rewrite(request, used, defined)
            if uses is not None:
                self._note_uses(id, uses)

    def change_costs(self, ids: Sequence[Hashable], costs: Sequence[np.ndarray] | np.ndarray) -> None:
        """New costs of many requests at once: an array for each, or all of them one behind another."""
        blocks = [self._request(id).block for id in ids]
        given = costs if isinstance(costs, np.ndarray) and costs.ndim == 1 else None
        if given is None:
            if len(costs) != len(ids):
                raise ValueError(f"costs: has {len(costs)} arrays, not {len(ids)}, one for each id")
            for id, block, cost in zip(ids, blocks, costs, strict=True):
                if np.shape(cost) != (block.columns,):
                    raise ValueError(f"cost of {id!r}: has shape {np.shape(cost)}, not ({block.columns},)")
            given = np.concatenate(costs) if len(costs) else np.zeros(0)
        counts = np.array([block.columns for block in blocks], dtype=np.int64)
        flat = _finite("costs", given, int(counts.sum()))
        starts = np.array([block.column for block in blocks], dtype=np.int64)
        with self._changing():
            self._storage.cost[ranges(starts, counts)] = -flat if self.maximise else flat

    def remove_request(self, id: Hashable) -> None:
        request = self._request(id)
        with self._changing():
            del self._requests[id]
            for resource in request.resources:
                self._users[resource].discard(id)
            for name in request.constraints:
                self._members[name].discard(id)
            self._storage.free_block(request.block)

    # Solving

    def solve(
        self,
        tolerance: float = 1e-4,
        threads: int = 2,
        time_limit_s: float = math.inf,
        warm: bool = True,
        shim: Shim | None = None,
    ) -> Solution:
        """Solve to relative primal, dual and gap `tolerance`, from the last solution where `warm`.

        threads: at most so many, where the program is large enough for more than one to pay. shim: makes an
        integer solution of the fractional one (`Solution.integral`). The same changes give the same solution.
        """
        if not 0 < tolerance < 1:
            raise ValueError(f"tolerance: is {tolerance}; a number between 0 and 1 is accepted")
        if threads < 1:
            raise ValueError(f"threads: is {threads}; 1 or more is accepted")
        if not time_limit_s > 0:
            raise ValueError(f"time_limit_s: is {time_limit_s}; more than 0 is accepted")
        with self._changing():
            self._compact()
            outcome = self._solver.solve(tolerance, threads, time_limit_s, warm)
            solution = Solution(
                outcome,
                self.maximise,
                {
                    id: (r.block.column, r.block.columns, r.block.row, r.block.rows)
                    for id, r in self._requests.items()
                },
                {**self._capacities},
                {**self._constraints},
            )
        return solution if shim is None else solution.with_integral(shim(solution))

    def linear_program(self) -> LinearProgram:
        """What is solved, as plain arrays to be minimised (costs are negated where the program maximises)."""
        storage = self._storage
        columns, rows = self._live_columns(), self._live_rows()
        counts = storage.end[columns] - storage.start[columns]
        held = ranges(storage.start[columns], counts)
        position = np.zeros(storage.rows.top, dtype=np.int64)
        position[rows] = np.arange(len(rows))
        matrix = sparse.csc_array(
            (storage.entry_value[held], position[storage.entry_row[held]], np.append(0, np.cumsum(counts))),
            shape=(len(rows), len(columns)),
        ).tocsr()
        matrix.sort_indices()
        return LinearProgram(
            storage.cost[columns],
            matrix,
            storage.row_lower[rows],
            storage.row_upper[rows],
            storage.lower[columns],
            storage.upper[columns],
        )

    @classmethod
    def of(cls, program: LinearProgram) -> ContinualProgram:
        """A plain LP as one request `ALL` whose own rows are the LP's rows; `integer` is not looked at."""
        made = cls()
        entries = program.matrix.tocoo()
        kept = entries.data != 0
        own = (entries.col[kept].astype(np.int64), entries.row[kept].astype(np.int64), entries.data[kept])
        none = np.zeros(0, dtype=np.int64)
        with made._changing():
            bounds = (program.lower, program.upper)
            made._place(
                ALL, program.cost, bounds, (none, none, np.zeros(0)), own, (program.row_lower, program.row_upper)
            )
        return made

    # Inside

    @contextmanager
    def _changing(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("the program is being solved; changes are accepted when the solve has returned")
        try:
            yield
        finally:
            self._busy.release()

    def _place(
        self,
        id: Hashable,
        costs: np.ndarray,
        bounds: tuple[np.ndarray, np.ndarray],
        used: Triplets,
        own: Triplets,
        sides: tuple[np.ndarray, np.ndarray],
    ) -> None:
        storage, count = self._storage, len(costs)
        block = Block(storage.take_columns(count), count)
        mine = slice(block.column, block.column + count)
        storage.cost[mine] = -costs if self.maximise else costs
        storage.lower[mine], storage.upper[mine] = bounds
        request = self._requests[id] = _Request(block, set())
        self._rewrite(request, used, (own, sides))

    def _rewrite(
        self,
        request: _Request,
        used: Triplets | None,
        defined: tuple[Triplets, tuple[np.ndarray, np.ndarray]] | None,
    ) -> None:
        """Replace the request's use of resources, its own rows, or both; what is None stays."""
        storage, block = self._storage, request.block
        column, row, value = storage.read(block)
        kind = storage.kind[row]
        keep = np.ones(len(row), dtype=bool)
        if used is not None:
            keep &= kind != CAPACITY
        if defined is not None:
            keep &= kind != OWN
        parts = [(column[keep], row[keep], value[keep])]
        if used is not None:
            parts.append(used)
        if defined is not None:
            (own_column, own_row, own_value), (low, high) = defined
            if len(low) != block.rows:
                storage.free_rows(block.row, block.rows)
                block.row, block.rows = storage.take_rows(len(low), OWN), len(low)
            mine = slice(block.row, block.row + block.rows)
            storage.row_lower[mine], storage.row_upper[mine] = low, high
            parts.append((own_column, own_row + block.row, own_value))
        storage.write(block, *(np.concatenate([part[i] for part in parts]) for i in range(3)))

    def _uses(self, id: Hashable, uses: Mapping[str, Coefficients], count: int) -> Triplets:
        parts = []
        for resource, given in uses.items():
            if resource not in self._capacities:
                raise ValueError(f"uses of {id!r}: resource {resource!r} is unknown; set_capacity makes it known")
            index, value = _coefficients(f"uses of {id!r}, {resource!r}", given, count)
            parts.append((index, np.full(len(index), self._capacities[resource], dtype=np.int64), value))
        return _joined(parts)

    def _note_uses(self, id: Hashable, uses: Iterable[str]) -> None:
        request = self._requests[id]
        for resource in request.resources.difference(uses):
            self._users[resource].discard(id)
        request.resources = set(uses)
        for resource in request.resources:
            self._users[resource].add(id)

    def _set_sides(self, slot: int, sides: tuple[float, float]) -> None:
        self._storage.row_lower[slot], self._storage.row_upper[slot] = sides

    def _drop_row(self, slot: int, members: Iterable[Hashable]) -> None:
        for id in members:
            block = self._requests[id].block
            column, row, value = self._storage.read(block)
            keep = row != slot
            self._storage.write(block, column[keep], row[keep], value[keep])
        self._storage.free_rows(slot, 1)

    def _compact(self, always: bool = False) -> None:
        if not (always or self._storage.wasteful):
            return
        single = np.array([*self._capacities.values(), *self._constraints.values()], dtype=np.int64)
        slots = self._storage.compact([request.block for request in self._requests.values()], single)
        names = [*self._capacities, *self._constraints]
        for i, (name, slot) in enumerate(zip(names, slots, strict=True)):
            (self._capacities if i < len(self._capacities) else self._constraints)[name] = int(slot)

    def _live_columns(self) -> np.ndarray:
        blocks = [request.block for request in self._requests.values()]
        shape = np.array([(b.column, b.columns) for b in blocks], dtype=np.int64).reshape(-1, 2)
        return ranges(shape[:, 0], shape[:, 1])

    def _live_rows(self) -> np.ndarray:
        blocks = [request.block for request in self._requests.values()]
        shape = np.array([(b.row, b.rows) for b in blocks], dtype=np.int64).reshape(-1, 2)
        single = np.array([*self._capacities.values(), *self._constraints.values()], dtype=np.int64)
        return np.concatenate([single, ranges(shape[:, 0], shape[:, 1])])

    def _request(self, id: Hashable) -> _Request:
        self._known(self._requests, "request", id)
        return self._requests[id]

    @staticmethod
    def _known(among: Mapping[Any, Any], what: str, name: Hashable) -> None:
        if name not in among:
            raise ValueError(f"{what} {name!r}: is unknown; one of the {len(among)} that were added is accepted")


def _joined(parts: Sequence[Triplets]) -> Triplets:
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return none, none, np.zeros(0)
    column, row, value = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return column, row, value


def _sides(what: str, lower: float, upper: float) -> tuple[float, float]:
    if not (lower <= upper and lower < math.inf and upper > -math.inf):
        raise ValueError(f"{what}: lower {lower} and upper {upper} hold no number; lower <= upper is accepted")
    return float(lower), float(upper)


def _finite(what: str, given: Sequence[float] | np.ndarray, count: int | None = None) -> np.ndarray:
    array = np.asarray(given, dtype=float)
    if array.ndim != 1 or (count is not None and len(array) != count):
        wanted = "(variables,)" if count is None else f"({count},)"
        raise ValueError(f"{what}: has shape {array.shape}, not {wanted}")
    if not np.isfinite(array).all():
        i = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"{what}: entry {i} is {array[i]}; finite numbers are accepted")
    return array


def _bounds(id: Hashable, lower: Any, upper: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    sides = []
    for name, given in (("lower", lower), ("upper", upper)):
        array = np.asarray(given, dtype=float)
        if array.shape not in ((), (count,)):
            raise ValueError(f"{name} of {id!r}: has shape {array.shape}, not () or ({count},)")
        sides.append(np.broadcast_to(array, (count,)))
    low, high = sides
    wrong = ~((low <= high) & (low < np.inf) & (high > -np.inf))
    if wrong.any():
        i = int(wrong.argmax())
        raise ValueError(f"bounds of {id!r}: lower {low[i]} and upper {high[i]} of variable {i} hold no number")
    return low, high


def _coefficients(what: str, given: Coefficients, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(indices, values) of what is not zero."""
    if isinstance(given, tuple):
        if len(given) != 2:
            raise ValueError(f"{what}: is a tuple of {len(given)}; (indices, values) is accepted")
        index, value = np.asarray(given[0]), np.asarray(given[1], dtype=float)
        value = np.broadcast_to(value, index.shape) if value.ndim == 0 else value
        if index.ndim != 1 or value.shape != index.shape:
            raise ValueError(f"{what}: indices and values have shapes {index.shape} and {value.shape}, not one")
        if len(index) and not np.issubdtype(index.dtype, np.integer):
            raise ValueError(f"{what}: indices are {index.dtype}; whole numbers are accepted")
        index = index.astype(np.int64)
        if len(index) and not (index.min() >= 0 and index.max() < count):
            raise ValueError(
                f"{what}: indices reach from {index.min()} to {index.max()}, not within 0 to {count - 1}"
            )
        if len(np.unique(index)) != len(index):
            raise ValueError(f"{what}: has an index twice; each at most once is accepted")
    else:
        value = np.asarray(given, dtype=float)
        value = np.full(count, float(value)) if value.ndim == 0 else value
        if value.shape != (count,):
            raise ValueError(f"{what}: has shape {value.shape}, not ({count},)")
        index = np.arange(count)
    if not np.isfinite(value).all():
        raise ValueError(f"{what}: has coefficients that are not finite")
    kept = value != 0
    return index[kept], value[kept]


def _rows(id: Hashable, rows: Sequence[Row], count: int) -> tuple[Triplets, tuple[np.ndarray, np.ndarray]]:
    parts, sides = [], []
    for i, row in enumerate(rows):
        index, value = _coefficients(f"row {i} of {id!r}", row.coefficients, count)
        parts.append((index, np.full(len(index), i, dtype=np.int64), value))
        sides.append(_sides(f"row {i} of {id!r}", row.lower, row.upper))
    low, high = np.array(sides, dtype=float).reshape(-1, 2).T
    return _joined(parts), (low, high)
