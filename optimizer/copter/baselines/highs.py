"""HiGHS behind one interface: simplex, interior points, PDLP and branch and bound, cold or after the last program.

A hot solver keeps its model: what differs from the last program is changed in place, so that simplex goes on from
its basis, PDLP from its point and branch and bound from its solution. Everything is minimised: HiGHS's own
first-order solver is known to stop at once when told to maximise.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from enum import StrEnum
from importlib.util import find_spec
from typing import Protocol, TypeVar

import highspy
import numpy as np
from scipy import sparse

from ..linear_program import LinearProgram, LinearSolution, Status

Matrix = TypeVar("Matrix", sparse.csr_array, sparse.csc_array)
# Changed coefficients are handed over one by one; beyond so many, a new model with the old basis is faster.
MAX_CHANGED_COEFFICIENTS = 2000
# HiGHS refuses coefficients from here on, and lower sides, or upper ones below 0, which are infinite to it.
TOO_LARGE, TOO_LARGE_SIDE = 1e15, 1e20
FEASIBLE = 1e-7  # how far beyond its side a row may be


class LpSolver(Protocol):
    """Whatever solves a linear program, alone or as the next of a sequence."""

    @property
    def name(self) -> str: ...

    def solve(self, program: LinearProgram) -> LinearSolution: ...


class Method(StrEnum):
    SIMPLEX = "simplex"
    INTERIOR_POINT = "ipm"  # IPX: iterative, by the basis at hand
    HIPO = "hipo"  # the one that factorises; of the package highspy-extras
    PDLP = "pdlp"
    EXACT = "mip"  # `integer` is honoured; the other methods relax it


STATUS = {
    highspy.HighsModelStatus.kOptimal: Status.OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: Status.INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: Status.UNBOUNDED,
}


@dataclass
class Highs:
    """HiGHS with one method; cold by default.

    time_limit_s: of one solve. gap: relative gap at which `mip` stops. tolerance: relative, of `pdlp`. crossover:
    whether `ipm` and `hipo` end at a vertex. threads: 0 lets HiGHS choose. Without a time limit every answer of
    simplex, ipm and hipo is exact to 1e-7. Coefficients of 1e-12 and less in size count as 0.

    Raises:
        ValueError: for a limit, gap or tolerance that is not positive, and for `hipo` where it is not installed;
            by `solve`, for a program that HiGHS refuses: coefficients of 1e15 and more in size, or a finite lower
            side of 1e20 and more, or upper of -1e20 and less.
    """

    method: Method = Method.SIMPLEX
    time_limit_s: float = float("inf")
    gap: float = 1e-4
    tolerance: float = 1e-4
    threads: int = 1
    crossover: bool = True

    def __post_init__(self) -> None:
        self.method = Method(self.method)
        for name in ("time_limit_s", "gap", "tolerance"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: is {getattr(self, name)}, not above 0")
        if self.method is Method.HIPO and find_spec("highspy_extras") is None:
            raise ValueError("method: hipo needs the package highspy-extras, which is not installed")

    @property
    def name(self) -> str:
        return f"HiGHS {self.method}"

    def solve(self, program: LinearProgram) -> LinearSolution:
        began = time.perf_counter()
        if not len(program.cost):
            return _without_columns(program, began)
        _check(program)
        highs = self._solver()
        _pass(highs, program, integer=self.method is Method.EXACT)
        return self._run(highs, program, began)

    def _solver(self) -> highspy.Highs:
        highs = highspy.Highs()
        options: dict[str, bool | int | float | str] = {
            "output_flag": False,
            "threads": self.threads,
            "mip_rel_gap": self.gap,
            "small_matrix_value": 1e-12,  # the least it accepts
        }
        if self.method is not Method.EXACT:
            # HiGHS would take hipo for ipm wherever that is installed.
            options["solver"] = "ipx" if self.method is Method.INTERIOR_POINT else str(self.method)
        if self.method is Method.PDLP:
            options["pdlp_optimality_tolerance"] = self.tolerance
            options["primal_feasibility_tolerance"] = options["dual_feasibility_tolerance"] = self.tolerance
        if not self.crossover:
            options["run_crossover"] = "off"
        for name, value in options.items():
            highs.setOptionValue(name, value)
        return highs

    def _run(self, highs: highspy.Highs, program: LinearProgram, began: float) -> LinearSolution:
        """The answer in the model's own order of columns and rows, which here is the program's."""
        ready = time.perf_counter()
        if np.isfinite(self.time_limit_s):
            highs.setOptionValue("time_limit", highs.getRunTime() + self.time_limit_s)  # its clock never restarts
        highs.run()
        seconds = time.perf_counter() - began
        status = STATUS.get(highs.getModelStatus(), Status.STOPPED)
        info, found = highs.getInfo(), highs.getSolution()
        iterations = sum(max(0, getattr(info, f"{kind}_iteration_count")) for kind in ("simplex", "ipm", "pdlp"))
        branched = self.method is Method.EXACT and bool(_whole(program).any())
        has_minimum = status in (Status.OPTIMAL, Status.STOPPED)
        if branched:
            has_x = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        else:
            has_x = found.value_valid
        x = np.asarray(found.col_value) if has_x and has_minimum else None
        dual = np.asarray(found.row_dual) if found.dual_valid and not branched else None
        objective = float("nan") if x is None else float(program.cost @ x)
        if not has_minimum:
            bound = -np.inf
        elif branched:
            bound = float(info.mip_dual_bound)
        elif status is Status.OPTIMAL and self.method is not Method.PDLP:
            bound = objective
        else:
            bound = -np.inf if dual is None else dual_bound(program, dual)
        return LinearSolution(status, x, dual, objective, bound, seconds, ready - began, iterations)


def _without_columns(program: LinearProgram, began: float) -> LinearSolution:
    """HiGHS says of such a program that it is empty, not whether its rows can be 0."""
    feasible = ((program.row_lower <= FEASIBLE) & (program.row_upper >= -FEASIBLE)).all()
    seconds = time.perf_counter() - began
    if not feasible:
        return LinearSolution(Status.INFEASIBLE, seconds=seconds)
    return LinearSolution(Status.OPTIMAL, np.zeros(0), np.zeros(len(program.row_lower)), 0.0, 0.0, seconds)


def dual_bound(program: LinearProgram, row_dual: np.ndarray) -> float:
    """The Lagrangian bound of any multipliers: the minimum is at least this.

    row_dual: (rows,). Multipliers of a side that is infinite are taken as 0; -inf where a reduced cost points to
    an infinite bound.
    """
    side = np.where(row_dual > 0, program.row_lower, program.row_upper)
    y = np.where(np.isfinite(side), row_dual, 0.0)
    reduced = program.cost - program.matrix.T @ y
    bound = np.where(reduced > 0, program.lower, program.upper)
    moved, priced = np.abs(reduced) > 1e-12, y != 0
    return float(y[priced] @ side[priced] + reduced[moved] @ bound[moved])


@dataclass
class _Model:
    """What HiGHS holds now: the last program and its names, in HiGHS's own order."""

    program: LinearProgram
    columns: np.ndarray
    rows: np.ndarray


@dataclass
class HotHighs(Highs):
    """HiGHS that goes on from the last program.

    Columns and rows are known by the names given to `solve` (any distinct integers, in any order); without
    names by their position.

    Raises:
        ValueError: for `ipm` and `hipo`, which HiGHS cannot start from a point, and for names that repeat or do
            not fit.
    """

    _highs: highspy.Highs = field(init=False, repr=False)
    _model: _Model | None = field(default=None, init=False, repr=False)
    _last: LinearSolution | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method in (Method.INTERIOR_POINT, Method.HIPO):
            raise ValueError(
                f"method: is '{self.method}', which HiGHS cannot start hot; simplex, pdlp and mip are accepted"
            )
        self._highs = self._solver()

    def __getstate__(self) -> dict[str, object]:
        """HiGHS itself cannot be pickled: what is read back is set as this one, and begins from nothing."""
        return {part.name: getattr(self, part.name) for part in fields(self) if part.init}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _model=None, _last=None)
        self._highs = self._solver()

    @property
    def name(self) -> str:
        return f"HiGHS {self.method}, hot"

    def solve(
        self, program: LinearProgram, columns: np.ndarray | None = None, rows: np.ndarray | None = None
    ) -> LinearSolution:
        began = time.perf_counter()
        columns = _names("columns", columns, len(program.cost))
        rows = _names("rows", rows, len(program.row_lower))
        if not len(program.cost):
            return _without_columns(program, began)
        _check(program)
        before, self._model = self._model, None  # what fails on the way leaves HiGHS with part of a program
        if before is None:
            _pass(self._highs, program, integer=self.method is Method.EXACT)
            self._model = _Model(program, columns, rows)
        else:
            self._model = self._change(before, program, columns, rows)
        if before is not None and self._last is not None and self.method is not Method.SIMPLEX:
            self._start_from(before, self._model, self._last)
        held = self._last = self._run(self._highs, self._model.program, began)
        x = None if held.x is None else held.x[_places(self._model.columns, columns)]
        dual = None if held.row_dual is None else held.row_dual[_places(self._model.rows, rows)]
        return LinearSolution(
            held.status, x, dual, held.objective, held.bound, held.seconds, held.setup_s, held.iterations
        )

    def _change(self, old: _Model, program: LinearProgram, columns: np.ndarray, rows: np.ndarray) -> _Model:
        """Bring HiGHS from the old program to the new one; what stayed comes first, in its old order."""
        highs = self._highs
        stay_c, stay_r = np.isin(old.columns, columns), np.isin(old.rows, rows)
        new_c, new_r = ~np.isin(columns, old.columns), ~np.isin(rows, old.rows)
        order_c = np.concatenate([_places(columns, old.columns[stay_c]), np.flatnonzero(new_c)])
        order_r = np.concatenate([_places(rows, old.rows[stay_r]), np.flatnonzero(new_r)])
        new = _Model(_ordered(program, order_c, order_r), columns[order_c], rows[order_r])
        kept_c, kept_r = int(stay_c.sum()), int(stay_r.sum())
        was, now = old.program.matrix[stay_r][:, stay_c], new.program.matrix[:kept_r, :kept_c]
        difference = sparse.coo_array(now - was)
        changed = difference.data != 0
        if changed.sum() > MAX_CHANGED_COEFFICIENTS:
            self._pass_with_basis(new, stay_c, stay_r)
            return new
        if not stay_c.all():
            gone = np.flatnonzero(~stay_c).astype(np.int32)
            highs.deleteCols(len(gone), gone)
        if not stay_r.all():
            gone = np.flatnonzero(~stay_r).astype(np.int32)
            highs.deleteRows(len(gone), gone)
        for r, c in zip(difference.coords[0][changed], difference.coords[1][changed], strict=True):
            highs.changeCoeff(int(r), int(c), float(now[r, c]))
        p = new.program
        _change_sides(highs, old.program, p, stay_c, stay_r)
        if new_r.any():
            part = _summed(sparse.csr_array(p.matrix[kept_r:, :kept_c]))
            highs.addRows(
                part.shape[0], p.row_lower[kept_r:], p.row_upper[kept_r:], part.nnz, *_parts(part)
            )  # fmt: skip
        if new_c.any():
            block = _summed(sparse.csc_array(p.matrix[:, kept_c:]))
            highs.addCols(
                block.shape[1], p.cost[kept_c:], p.lower[kept_c:], p.upper[kept_c:], block.nnz, *_parts(block)
            )
        if self.method is Method.EXACT:
            had = np.append(_whole(old.program)[stay_c], np.zeros(len(p.cost) - kept_c, bool))
            now_whole = _whole(p)
            for c in np.flatnonzero(had != now_whole):
                kinds = highspy.HighsVarType
                highs.changeColIntegrality(int(c), kinds.kInteger if now_whole[c] else kinds.kContinuous)
        return new

    def _pass_with_basis(self, new: _Model, stay_c: np.ndarray, stay_r: np.ndarray) -> None:
        basis = self._highs.getBasis()
        _pass(self._highs, new.program, integer=self.method is Method.EXACT)
        if not basis.valid or self.method is not Method.SIMPLEX:
            return
        kinds = highspy.HighsBasisStatus
        columns = [status for status, stays in zip(basis.col_status, stay_c, strict=True) if stays]
        rows = [status for status, stays in zip(basis.row_status, stay_r, strict=True) if stays]
        basis.col_status = columns + [kinds.kLower] * (len(new.columns) - len(columns))
        basis.row_status = rows + [kinds.kBasic] * (len(new.rows) - len(rows))
        self._highs.setBasis(basis)

    def _start_from(self, old: _Model, new: _Model, last: LinearSolution) -> None:
        """PDLP and branch and bound begin at the last point; what is new begins at its bound nearest to 0."""
        if last.x is None:
            return
        start = highspy.HighsSolution()
        p = new.program
        x = np.clip(0.0, p.lower, p.upper)
        both = np.isin(new.columns, old.columns)
        x[both] = last.x[_places(old.columns, new.columns[both])]
        start.col_value, start.value_valid = list(np.clip(x, p.lower, p.upper)), True
        if last.row_dual is not None:
            y = np.zeros(len(new.rows))
            both = np.isin(new.rows, old.rows)
            y[both] = last.row_dual[_places(old.rows, new.rows[both])]
            start.row_value, start.row_dual = list(p.matrix @ x), list(y)
            start.col_dual, start.dual_valid = list(p.cost - p.matrix.T @ y), True
        self._highs.setSolution(start)


def _whole(program: LinearProgram) -> np.ndarray:
    """(columns,) which must be whole numbers."""
    return np.zeros(len(program.cost), bool) if program.integer is None else program.integer


def _check(program: LinearProgram) -> None:
    """Raises ValueError for what HiGHS refuses of a new model, though it may not where a model is changed."""
    sizes_of = {
        "matrix": (np.abs(program.matrix.data), TOO_LARGE),
        "lower": (program.lower, TOO_LARGE_SIDE),
        "upper": (-program.upper, TOO_LARGE_SIDE),
        "row_lower": (program.row_lower, TOO_LARGE_SIDE),
        "row_upper": (-program.row_upper, TOO_LARGE_SIDE),
    }
    for name, (sizes, limit) in sizes_of.items():
        largest = sizes.max(initial=0.0)
        if largest >= limit:
            raise ValueError(f"{name}: has an entry of size {largest:g}; less than {limit:g} is accepted by HiGHS")


def _pass(highs: highspy.Highs, program: LinearProgram, *, integer: bool) -> None:
    starts, index, values = _parts(_summed(program.matrix))
    kinds = np.zeros(len(program.cost), np.int32)
    if integer:
        kinds[_whole(program)] = int(highspy.HighsVarType.kInteger)
    answer = highs.passModel(
        len(program.cost),
        len(program.row_lower),
        len(index),
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        program.cost,
        program.lower,
        program.upper,
        program.row_lower,
        program.row_upper,
        starts,
        index,
        values,
        kinds,
    )
    if answer == highspy.HighsStatus.kError:
        raise ValueError(
            f"program: is refused by HiGHS; coefficients of less than {TOO_LARGE:g} in size are accepted"
        )


def _change_sides(
    highs: highspy.Highs, old: LinearProgram, new: LinearProgram, stay_c: np.ndarray, stay_r: np.ndarray
) -> None:
    """Costs, bounds and sides of what stayed, where they changed."""
    kept_c, kept_r = int(stay_c.sum()), int(stay_r.sum())
    costs = np.flatnonzero(new.cost[:kept_c] != old.cost[stay_c]).astype(np.int32)
    if len(costs):
        highs.changeColsCost(len(costs), costs, new.cost[costs])
    differ = (new.lower[:kept_c] != old.lower[stay_c]) | (new.upper[:kept_c] != old.upper[stay_c])
    bounds = np.flatnonzero(differ).astype(np.int32)
    if len(bounds):
        highs.changeColsBounds(len(bounds), bounds, new.lower[bounds], new.upper[bounds])
    differ = (new.row_lower[:kept_r] != old.row_lower[stay_r]) | (new.row_upper[:kept_r] != old.row_upper[stay_r])
    sides = np.flatnonzero(differ).astype(np.int32)
    if len(sides):
        # Its stubs leave this one out.
        highs.changeRowsBounds(len(sides), sides, new.row_lower[sides], new.row_upper[sides])  # type: ignore[attr-defined]


def _summed(matrix: Matrix) -> Matrix:
    """Every coefficient in one part: HiGHS refuses more."""
    if matrix.has_canonical_format:
        return matrix
    matrix = matrix.copy()
    matrix.sum_duplicates()
    return matrix


def _parts(matrix: sparse.csr_array | sparse.csc_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts (with the end where rowwise models want it), indices and values, in HiGHS's types."""
    return matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data.astype(np.float64)


def _ordered(program: LinearProgram, columns: np.ndarray, rows: np.ndarray) -> LinearProgram:
    if (columns == np.arange(len(columns))).all() and (rows == np.arange(len(rows))).all():
        return program
    return LinearProgram(
        program.cost[columns],
        sparse.csr_array(program.matrix[rows][:, columns]),
        program.row_lower[rows],
        program.row_upper[rows],
        program.lower[columns],
        program.upper[columns],
        None if program.integer is None else program.integer[columns],
    )


def _names(field_name: str, names: np.ndarray | None, count: int) -> np.ndarray:
    if names is None:
        return np.arange(count)
    if names.shape != (count,):
        raise ValueError(f"{field_name}: has shape {names.shape}, not ({count},) as the program says")
    if len(np.unique(names)) != count:
        raise ValueError(f"{field_name}: has names that repeat; every one must be distinct")
    return names


def _places(names: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where in `names` each of `wanted` is; all of them are."""
    order = np.argsort(names, kind="stable")
    return order[np.searchsorted(names, wanted, sorter=order)]
