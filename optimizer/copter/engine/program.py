"""A linear program of requests that share resources. It changes a little and is solved from its last solution.

This is COpter's continual optimisation (section 4.3). A program whose requests come and go slowly is compiled
once. A change takes time only for what it changes. Every solve starts from the last one's primal and dual.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from scipy import sparse

from ...linear_program import LinearProgram, Status
from . import inputs
from .blocks import COLUMN, COLUMNS, ROWS
from .inputs import Coefficients, Row
from .shim import Shim, checked
from .solution import Solution
from .solver import Solver
from .structure import Structure

ALL = "x"  # the request that holds all of a plain LP


class ContinualProgram(Structure):
    """Minimises or maximises cost @ x over requests' variables, within capacities, constraints and requests' rows.

    A change takes time only for what it changes. It is made whole, or refused with the program left as it was. The
    columns of `linear_program` and `Solution.values` are the requests' in the order in which they were added. The
    rows are capacities, then constraints, then the requests' own rows, each in the order of addition.

    Sides and bounds of 1e18 and more in size count as infinite.

    Raises (all methods):
        ValueError: for an id that is unknown or taken, lengths that do not agree, wrong types and sides that hold
        no
            number. Also for costs or coefficients that are not finite or 1e100 and more in size, and for a shim
            that returns no whole, feasible solution.
        RuntimeError: for a change or a second solve while the program is being solved.
    """

    def __init__(self, maximise: bool = False) -> None:
        super().__init__(maximise)
        self._solver = Solver(self._storage)

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
        """Add a request of one variable per cost.

        Args:
            uses: {resource: coefficients}.
            rows: over these variables alone.
        """
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
        """Add many requests of sizes[i] variables. Everything else is given one request behind another.

        Each of `rows` makes a row in every request, with those of its coefficients that are the request's.
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
        """Replace what is given of a request. Its number of variables stays."""
        with self._changing():
            storage = self._storage
            first, count = storage.blocks[self._block(id), [COLUMN, COLUMNS]].tolist()
            own = slice(first, first + count)
            costs = None if cost is None else inputs.finite(f"cost of {id!r}", cost, count)
            bounds = None
            if lower is not None or upper is not None:
                low = storage.lower[own] if lower is None else lower
                high = storage.upper[own] if upper is None else upper
                bounds = inputs.bounds_of(repr(id), low, high, count)
            used = None if uses is None else self._uses(repr(id), uses, count)
            alone = np.array([count])
            defined = None if rows is None else inputs.rows_of(repr(id), rows, alone)
            if costs is not None:
                storage.cost[own] = -costs if self.maximise else costs
            if bounds is not None:
                storage.lower[own], storage.upper[own] = bounds
            if used is not None or defined is not None:
                self._rewrite(id, None if used is None else self._entries(used), defined)
            if used is not None:
                self._note_users([id], alone, used)

    def change_costs(self, ids: Sequence[Hashable], costs: Sequence[np.ndarray] | np.ndarray) -> None:
        """Give many requests new costs: one array for each, or one array of all."""
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
        """Replace what many requests use of some resources. What they use of other resources stays.

        Coefficients are over all their variables, one request behind another.
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
        """Remove a request and all its variables."""
        self.remove_requests([id])

    def remove_requests(self, ids: Sequence[Hashable]) -> None:
        """Remove many requests."""
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
        """Solve to a relative `tolerance` of primal, dual and gap, from the last solution if `warm`.

        The same changes give the same solution.

        Args:
            threads: the most threads; small programs use one.
            shim: makes an integer solution of the fractional one (`Solution.integral`). It is not called for a
                program that is found to have no optimum.
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
            # The shim's answer is checked against this copy, as others may change the program meanwhile.
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
        """Return the program that is solved, which is minimised. Costs are negated if the program maximises."""
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
        """Return a plain LP as one request `ALL` whose own rows are the LP's rows. `integer` is ignored."""
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
