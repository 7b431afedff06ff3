"""HiGHS that goes on from the last program and changes it in place.

Simplex goes on from its basis, PDLP from its point, and branch and bound from its solution.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from typing import Protocol

import highspy
import numpy as np
from scipy import sparse

from ...highs import Highs, Method, check_sizes, integer_columns, parts_of, pass_model, summed, without_columns
from ...linear_program import LinearProgram, LinearSolution

# Changed coefficients are handed over one by one. With more of them a new model with the old basis is faster.
MAX_CHANGED_COEFFICIENTS = 2000


class LpSolver(Protocol):
    """Solves a linear program, alone or as the next one of a sequence."""

    @property
    def name(self) -> str: ...

    def solve(self, program: LinearProgram) -> LinearSolution: ...


@dataclass
class _Model:
    """What HiGHS holds: the last program and its names, in HiGHS's own order."""

    program: LinearProgram
    columns: np.ndarray
    rows: np.ndarray


@dataclass
class HotHighs(Highs):
    """HiGHS that goes on from the last program.

    Columns and rows are known by the names given to `solve`, which are distinct integers in any order. Without
    names they are known by their position.

    Raises:
        ValueError: for `ipm` and `hipo`, which HiGHS cannot start from a point. Also for names that repeat or are
            too few or too many.
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
        self._highs = self.solver()

    def __getstate__(self) -> dict[str, object]:
        """Return the settings alone, as HiGHS cannot be pickled. A copy begins from nothing."""
        return {part.name: getattr(self, part.name) for part in fields(self) if part.init}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _model=None, _last=None)
        self._highs = self.solver()

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
            return without_columns(program, began)
        check_sizes(program)
        before, self._model = self._model, None  # an error on the way leaves HiGHS with a part of a program
        if before is None:
            pass_model(self._highs, program, integer=self.method is Method.EXACT)
            self._model = _Model(program, columns, rows)
        else:
            self._model = self._change(before, program, columns, rows)
        if before is not None and self._last is not None and self.method is not Method.SIMPLEX:
            self._start_from(before, self._model, self._last)
        held = self._last = self.run(self._highs, self._model.program, began)
        x = None if held.x is None else held.x[_places(self._model.columns, columns)]
        dual = None if held.row_dual is None else held.row_dual[_places(self._model.rows, rows)]
        return LinearSolution(
            held.status, x, dual, held.objective, held.bound, held.seconds, held.setup_s, held.iterations
        )

    def _change(self, old: _Model, program: LinearProgram, columns: np.ndarray, rows: np.ndarray) -> _Model:
        """Bring HiGHS from the old program to the new one. What stays comes first, in its old order."""
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
            part = summed(sparse.csr_array(p.matrix[kept_r:, :kept_c]))
            highs.addRows(
                part.shape[0], p.row_lower[kept_r:], p.row_upper[kept_r:], part.nnz, *parts_of(part)
            )  # fmt: skip
        if new_c.any():
            block = summed(sparse.csc_array(p.matrix[:, kept_c:]))
            highs.addCols(
                block.shape[1], p.cost[kept_c:], p.lower[kept_c:], p.upper[kept_c:], block.nnz, *parts_of(block)
            )
        if self.method is Method.EXACT:
            had = np.append(integer_columns(old.program)[stay_c], np.zeros(len(p.cost) - kept_c, bool))
            now_whole = integer_columns(p)
            for c in np.flatnonzero(had != now_whole):
                kinds = highspy.HighsVarType
                highs.changeColIntegrality(int(c), kinds.kInteger if now_whole[c] else kinds.kContinuous)
        return new

    def _pass_with_basis(self, new: _Model, stay_c: np.ndarray, stay_r: np.ndarray) -> None:
        basis = self._highs.getBasis()
        pass_model(self._highs, new.program, integer=self.method is Method.EXACT)
        if not basis.valid or self.method is not Method.SIMPLEX:
            return
        kinds = highspy.HighsBasisStatus
        columns = [status for status, stays in zip(basis.col_status, stay_c, strict=True) if stays]
        rows = [status for status, stays in zip(basis.row_status, stay_r, strict=True) if stays]
        basis.col_status = columns + [kinds.kLower] * (len(new.columns) - len(columns))
        basis.row_status = rows + [kinds.kBasic] * (len(new.rows) - len(rows))
        self._highs.setBasis(basis)

    def _start_from(self, old: _Model, new: _Model, last: LinearSolution) -> None:
        """Let PDLP or branch and bound begin at the last point. New columns begin at their value nearest to 0."""
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


def _change_sides(
    highs: highspy.Highs, old: LinearProgram, new: LinearProgram, stay_c: np.ndarray, stay_r: np.ndarray
) -> None:
    """Hand over the changed costs, bounds and sides of what stays."""
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
        # HiGHS's type stubs leave this method out.
        highs.changeRowsBounds(len(sides), sides, new.row_lower[sides], new.row_upper[sides])  # type: ignore[attr-defined]


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
    """Return the place in `names` of each of `wanted`, all of which are there."""
    order = np.argsort(names, kind="stable")
    return order[np.searchsorted(names, wanted, sorter=order)]
