"""A linear program of requests that share resources, changed a little at a time and solved from where it was.

COpter's continual optimisation (section 4.3): a program whose requests come and go slowly is compiled once, each
change costs what it changes, and every solve starts from the last one's primal and dual.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

from ..linear_program import LinearProgram, Status
from . import inputs
from .blocks import COLUMN, COLUMNS, ROW, ROWS
from .inputs import LARGEST, Coefficients, Row, Triplets
from .shim import Shim, checked
from .solution import Solution
from .solver import Solver
from .storage import CAPACITY, CONSTRAINT, OWN, Storage
from .uses import Users, Uses

ALL = "x"  # the request that holds all of a plain LP


class ContinualProgram:
    """minimise (or maximise) cost @ x over requests' variables, within capacities, constraints and requests' rows.

    Every change costs what it changes and is either made whole or refused with the program left as it was.
    The columns of `linear_program` and `Solution.values` are the requests' in the order in which they were added;
    its rows are capacities, then constraints, then the requests' own rows, each in that order.

    Sides and bounds of 1e18 and more in size count as infinite.

    Raises (all methods):
        ValueError: for an id that is unknown or taken, lengths that do not agree, sides that hold no number, what
            is of another type than is said, costs or coefficients that are not finite or 1e100 and more in size,
            and a shim that returns no whole, feasible solution.
        RuntimeError: for a change or a second solve while the program is being solved.
    """

    def __init__(self, maximise: bool = False) -> None:
        self.maximise = maximise
        self._storage = Storage()
        self._blocks: dict[Hashable, int] = {}  # numbers in the storage
        self._terms: dict[Hashable, set[str]] = {}  # constraints that requests are part of
        self._capacities: dict[str, int] = {}
        self._users: dict[str, Users] = {}
        self._constraints: dict[str, int] = {}
        self._members: dict[str, set[Hashable]] = {}
        self._solver = Solver(self._storage)
        self._busy = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_busy"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._busy = threading.Lock()

    def __repr__(self) -> str:
        of = f"requests={len(self._blocks)}, variables={len(self)}, resources={len(self._capacities)}"
        return f"{type(self).__name__}({of}, constraints={len(self._constraints)}, maximise={self.maximise})"

    def __len__(self) -> int:
        """Live variables."""
        return self._storage.columns.live

    def __contains__(self, id: Hashable) -> bool:
        return id in self._blocks

    @property
    def requests(self) -> tuple[Hashable, ...]:
        return tuple(self._blocks)

    # Resources and constraints

    def set_capacity(self, resource: str, upper: float, lower: float = -math.inf) -> None:
        """lower <= what all requests use of `resource` <= upper; a resource not seen before is added."""
        inputs.hashable("resource", resource)
        sides = inputs.sides_of(f"capacity of {resource!r}", lower, upper)
        with self._changing():
            if resource not in self._capacities:
                self._capacities[resource] = self._storage.take_rows(1, CAPACITY)
                self._users[resource] = Users()
            self._set_sides(self._capacities[resource], sides)

    def remove_capacity(self, resource: str) -> None:
        """The resource, and what requests use of it, is no longer part of the program."""
        with self._changing():
            self._known(self._capacities, "resource", resource)
            users = self._users.pop(resource).among(self._blocks)
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
        inputs.hashable("constraint", name)
        with self._changing():
            if name in self._constraints:
                raise ValueError(f"constraint {name!r}: is there already; a name that is not taken is accepted")
            sides = inputs.sides_of(f"constraint {name!r}", lower, upper)
            by_request: dict[Hashable, list[tuple[int, float]]] = {}
            inputs.mapping(f"terms of constraint {name!r}", terms, "{(request, index): coefficient}")
            for term, given in terms.items():
                if not (isinstance(term, tuple) and len(term) == 2):
                    raise ValueError(f"constraint {name!r}: term {term!r} is not of (request, index)")
                id, index = term
                columns = self._columns(self._block(id))
                if not (isinstance(index, int | np.integer) and 0 <= index < columns):
                    raise ValueError(
                        f"constraint {name!r}: {id!r} has no variable {index}, only 0 to {columns - 1}"
                    )
                value = inputs.number(f"constraint {name!r}: coefficient of {term}", given)
                if not abs(value) < LARGEST:
                    raise ValueError(
                        f"constraint {name!r}: coefficient of {term} is {value}; numbers below {LARGEST:g} in size"
                        " are accepted"
                    )
                if value:
                    by_request.setdefault(id, []).append((index, value))
            slot = self._storage.take_rows(1, CONSTRAINT)
            self._constraints[name], self._members[name] = slot, set(by_request)
            self._set_sides(slot, sides)
            for id, mine in by_request.items():
                block = np.array([self._blocks[id]])
                at = np.array([i for i, _ in mine], dtype=np.int64)
                added = at, np.full(len(mine), slot), np.array([v for _, v in mine], dtype=float)
                self._storage.write(block, *inputs.joined([self._storage.read(block), added]))
                self._terms.setdefault(id, set()).add(name)

    def change_constraint(self, name: str, lower: float = -math.inf, upper: float = math.inf) -> None:
        """New sides for a constraint."""
        with self._changing():
            self._known(self._constraints, "constraint", name)
            sides = inputs.sides_of(f"constraint {name!r}", lower, upper)
            self._set_sides(self._constraints[name], sides)

    def remove_constraint(self, name: str) -> None:
        with self._changing():
            self._known(self._constraints, "constraint", name)
            members = self._members.pop(name)
            for id in members:
                self._terms[id].discard(name)
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
        inputs.hashable("request", id)
        costs = inputs.finite(f"cost of {id!r}", cost)
        self._add([id], repr(id), [len(costs)], costs, uses, rows, lower, upper)

    def add_requests(
        self,
        ids: Sequence[Hashable],
        sizes: Sequence[int] | np.ndarray,
        cost: Sequence[float] | np.ndarray,
        uses: Mapping[str, Coefficients] | None = None,
        rows: Sequence[Row] = (),
        lower: float | Sequence[float] | np.ndarray = 0.0,
        upper: float | Sequence[float] | np.ndarray = math.inf,
    ) -> None:
        """Many requests at once, of sizes[i] variables each; everything else is given one request behind another.

        Each of `rows` is a row of every request, over those of its coefficients that are the request's.
        """
        ids = inputs.ids_of(ids)
        self._add(ids, f"{len(ids)} requests", sizes, cost, uses, rows, lower, upper)

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
        with self._changing():
            storage = self._storage
            first, count = storage.blocks[self._block(id), [COLUMN, COLUMNS]].tolist()
            mine = slice(first, first + count)
            costs = None if cost is None else inputs.finite(f"cost of {id!r}", cost, count)
            bounds = None
            if lower is not None or upper is not None:
                low = storage.lower[mine] if lower is None else lower
                high = storage.upper[mine] if upper is None else upper
                bounds = inputs.bounds_of(repr(id), low, high, count)
            used = None if uses is None else self._uses(repr(id), uses, count)
            alone = np.array([count])
            defined = None if rows is None else inputs.rows_of(repr(id), rows, alone)
            if costs is not None:
                storage.cost[mine] = -costs if self.maximise else costs
            if bounds is not None:
                storage.lower[mine], storage.upper[mine] = bounds
            if used is not None or defined is not None:
                self._rewrite(id, None if used is None else self._entries(used), defined)
            if used is not None:
                self._note_users([id], alone, used)

    def change_costs(self, ids: Sequence[Hashable], costs: Sequence[np.ndarray] | np.ndarray) -> None:
        """New costs of many requests at once: an array for each, or all of them one behind another."""
        ids = inputs.ids_of(ids)
        with self._changing():
            blocks = self._several(ids)
            inputs.sequence("costs", costs, "a list of arrays, one for each id, or one flat array")
            given = costs if isinstance(costs, np.ndarray) and costs.ndim == 1 else None
            if given is None:
                if len(costs) != len(ids):
                    raise ValueError(
                        f"costs: has {len(costs)} entries, not {len(ids)} arrays, one for each id; one flat array"
                        " is accepted too"
                    )
                for id, count, cost in zip(ids, self._storage.blocks[blocks, COLUMNS], costs, strict=True):
                    array = cost if isinstance(cost, np.ndarray) else inputs.numbers(f"cost of {id!r}", cost)
                    if array.shape != (count,):
                        raise ValueError(f"cost of {id!r}: has shape {array.shape}, not ({count},)")
                given = np.concatenate(costs) if len(costs) else np.zeros(0)
            columns = self._storage.columns_of(blocks)
            flat = inputs.finite("costs", given, len(columns))
            self._storage.cost[columns] = -flat if self.maximise else flat

    def change_uses(self, ids: Sequence[Hashable], uses: Mapping[str, Coefficients]) -> None:
        """What many requests use of some resources, over all their variables, one request behind another.

        It replaces what these requests used of the resources that are named; of others they use what they did.
        """
        ids = inputs.ids_of(ids)
        with self._changing():
            blocks = self._several(ids)
            sizes = self._storage.blocks[blocks, COLUMNS]
            used = self._uses(f"{len(ids)} requests", uses, int(sizes.sum()))
            column, row, value = self._storage.read(blocks)
            keep = ~np.isin(row, [self._capacities[name] for name in uses])
            self._storage.write(
                blocks, *inputs.joined([(column[keep], row[keep], value[keep]), self._entries(used)])
            )
            self._note_users(ids, sizes, used)

    def remove_request(self, id: Hashable) -> None:
        self.remove_requests([id])

    def remove_requests(self, ids: Sequence[Hashable]) -> None:
        ids = inputs.ids_of(ids)
        with self._changing():
            blocks = self._several(ids)
            for id in ids:
                del self._blocks[id]
                for name in self._terms.pop(id, ()):
                    self._members[name].discard(id)
            self._storage.free_blocks(blocks)

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
        integer solution of the fractional one (`Solution.integral`), where the program is not found to be without
        an optimum. The same changes give the same solution.
        """
        tolerance, time_limit_s = (
            inputs.number("tolerance", tolerance),
            inputs.number("time_limit_s", time_limit_s),
        )
        if not 0 < tolerance < 1:
            raise ValueError(f"tolerance: is {tolerance}; a number between 0 and 1 is accepted")
        if not (isinstance(threads, int | np.integer) and threads >= 1):
            raise ValueError(f"threads: is {threads}; 1 or more is accepted")
        if not time_limit_s > 0:
            raise ValueError(f"time_limit_s: is {time_limit_s}; more than 0 is accepted")
        if not (shim is None or callable(shim)):
            raise ValueError(f"shim: is of type {type(shim).__name__}; a function of the solution is accepted")
        with self._changing():
            self._compact()
            outcome = self._solver.solve(tolerance, threads, time_limit_s, warm)
            # What the shim's answer is checked against, as others may change the program while it works.
            solved, names = None, list[str]()
            if shim is not None and outcome.status not in (Status.INFEASIBLE, Status.UNBOUNDED):
                solved = self.linear_program()
                names += [f"capacity of {name!r}" for name in self._capacities]
                names += [f"constraint {name!r}" for name in self._constraints]
            solution = Solution(
                outcome,
                self.maximise,
                {**self._blocks},
                self._storage.blocks[:, : ROWS + 1].copy(),
                {**self._capacities},
                {**self._constraints},
            )
        if shim is None or solved is None:
            return solution
        return solution.with_integral(checked(shim(solution), solved, names))

    def linear_program(self) -> LinearProgram:
        """What is solved, as plain arrays to be minimised (costs are negated where the program maximises)."""
        storage = self._storage
        blocks = self._all_blocks()
        columns, rows = storage.columns_of(blocks), np.concatenate([self._single_rows(), storage.own_rows(blocks)])
        position = np.zeros(storage.rows.top, dtype=np.int64)
        position[rows] = np.arange(len(rows))
        column, row, value = storage.read(blocks)
        matrix = sparse.coo_array((value, (position[row], column)), shape=(len(rows), len(columns))).tocsr()
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
        if not isinstance(program, LinearProgram):
            raise ValueError(f"program: is of type {type(program).__name__}; a LinearProgram is accepted")
        made = cls()
        costs, count = inputs.finite("cost", program.cost), len(program.cost)
        bounds = inputs.bounds_of("the program", program.lower, program.upper, count)
        sides = inputs.sides_of_all("rows", program.row_lower, program.row_upper)
        inputs.finite("matrix", program.matrix.data)
        matrix = program.matrix.copy()
        matrix.sum_duplicates()
        entries = matrix.tocoo()
        kept = entries.data != 0
        own = (entries.col[kept].astype(np.int64), entries.row[kept].astype(np.int64), entries.data[kept])
        with made._changing():
            made._place([ALL], np.array([count]), costs, bounds, inputs.joined([]), own, sides)
        return made

    # Inside

    @contextmanager
    def _changing(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                "the program is being solved or changed; changes are accepted once that has returned"
            )
        try:
            yield
        finally:
            self._busy.release()

    def _add(
        self,
        ids: Sequence[Hashable],
        what: str,
        sizes: Sequence[int] | np.ndarray,
        cost: Sequence[float] | np.ndarray,
        uses: Mapping[str, Coefficients] | None,
        rows: Sequence[Row],
        lower: float | Sequence[float] | np.ndarray,
        upper: float | Sequence[float] | np.ndarray,
    ) -> None:
        with self._changing():
            for id in ids:
                if id in self._blocks:
                    raise ValueError(f"request {id!r}: is there already; an id that is not taken is accepted")
            counts = inputs.sizes_of(sizes, len(ids))
            costs = inputs.finite(f"cost of {what}", cost, int(counts.sum()))
            bounds = inputs.bounds_of(what, lower, upper, len(costs))
            used = self._uses(what, {} if uses is None else uses, len(costs))
            own, sides = inputs.rows_of(what, rows, counts)
            self._place(ids, counts, costs, bounds, self._entries(used), own, sides)
            self._note_users(ids, counts, used)

    def _place(
        self,
        ids: Sequence[Hashable],
        sizes: np.ndarray,
        costs: np.ndarray,
        bounds: tuple[np.ndarray, np.ndarray],
        used: Triplets,
        own: Triplets,
        sides: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """own: rows counted over all the requests', as many of each; sides: of all of them."""
        storage = self._storage
        blocks = storage.take_blocks(sizes.tolist(), len(sides[0]) // len(ids) if len(ids) else 0)
        self._blocks.update(zip(ids, blocks.tolist(), strict=True))
        columns, rows = storage.columns_of(blocks), storage.own_rows(blocks)
        storage.cost[columns] = -costs if self.maximise else costs
        storage.lower[columns], storage.upper[columns] = bounds
        storage.row_lower[rows], storage.row_upper[rows] = sides
        column, row, value = own
        storage.write(blocks, *inputs.joined([used, (column, rows[row], value)]))

    def _rewrite(
        self,
        id: Hashable,
        used: Triplets | None,
        defined: tuple[Triplets, tuple[np.ndarray, np.ndarray]] | None,
    ) -> None:
        """Replace the request's use of resources, its own rows, or both; what is None stays."""
        storage, block = self._storage, self._blocks[id]
        alone, where = np.array([block]), storage.blocks[block]
        column, row, value = storage.read(alone)
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
            if len(low) != where[ROWS]:
                storage.free_rows(int(where[ROW]), int(where[ROWS]))
                where[ROW], where[ROWS] = storage.take_rows(len(low), OWN), len(low)
            mine = storage.own_rows(alone)
            storage.row_lower[mine], storage.row_upper[mine] = low, high
            parts.append((own_column, own_row + where[ROW], own_value))
        storage.write(alone, *inputs.joined(parts))

    def _uses(self, what: str, uses: Mapping[str, Coefficients], count: int) -> Uses:
        parts = []
        inputs.mapping(f"uses of {what}", uses, "{resource: coefficients}")
        for resource, given in uses.items():
            if resource not in self._capacities:
                raise ValueError(f"uses of {what}: resource {resource!r} is unknown; set_capacity makes it known")
            parts.append(inputs.coefficients_of(f"uses of {what}, {resource!r}", given, count))
        return Uses.of([*uses], parts)

    def _entries(self, used: Uses) -> Triplets:
        return used.entries([self._capacities[name] for name in used.resources])

    def _note_users(self, ids: Sequence[Hashable], sizes: np.ndarray, used: Uses) -> None:
        for resource, users in zip(used.resources, used.users(ids, sizes), strict=True):
            self._users[resource].add(users, self._blocks)

    def _set_sides(self, slot: int, sides: tuple[float, float]) -> None:
        self._storage.row_lower[slot], self._storage.row_upper[slot] = sides

    def _drop_row(self, slot: int, members: Collection[Hashable]) -> None:
        storage, blocks = self._storage, np.sort(self._several(members))
        column, row, _ = storage.read(blocks)
        owner = np.repeat(np.arange(len(blocks)), storage.blocks[blocks, COLUMNS])
        blocks = blocks[np.unique(owner[column[row == slot]])]
        column, row, value = storage.read(blocks)
        keep = row != slot
        storage.write(blocks, column[keep], row[keep], value[keep])
        storage.free_rows(slot, 1)

    def _compact(self, always: bool = False) -> None:
        if not (always or self._storage.wasteful):
            return
        self._storage.compact(self._all_blocks(), self._single_rows())
        self._blocks = {id: number for number, id in enumerate(self._blocks)}
        for users in self._users.values():
            users.among(self._blocks)
        self._capacities = {name: i for i, name in enumerate(self._capacities)}
        first = len(self._capacities)
        self._constraints = {name: first + i for i, name in enumerate(self._constraints)}

    def _single_rows(self) -> np.ndarray:
        return np.array([*self._capacities.values(), *self._constraints.values()], dtype=np.int64)

    def _all_blocks(self) -> np.ndarray:
        return np.fromiter(self._blocks.values(), np.int64, len(self._blocks))

    def _block(self, id: Hashable) -> int:
        self._known(self._blocks, "request", id)
        return self._blocks[id]

    def _columns(self, block: int) -> int:
        return int(self._storage.blocks[block, COLUMNS])

    def _several(self, ids: Collection[Hashable]) -> np.ndarray:
        try:
            return np.fromiter(map(self._blocks.__getitem__, ids), np.int64, len(ids))
        except KeyError as error:
            self._block(error.args[0])  # which says that it is unknown
            raise

    @staticmethod
    def _known(among: Mapping[Any, Any], what: str, name: Hashable) -> None:
        inputs.hashable(what, name)
        if name not in among:
            raise ValueError(f"{what} {name!r}: is unknown; one of the {len(among)} that were added is accepted")
