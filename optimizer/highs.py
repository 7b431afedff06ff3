"""HiGHS behind one interface: simplex, interior points, PDLP and branch and bound.

Everything is minimised, as HiGHS's first-order solver stops at once if it is told to maximise. Ctrl-C waits until
HiGHS returns, which it does at the time limit at the latest.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import TypeVar

import highspy
import numpy as np
from scipy import sparse

from .interrupts import InterruptsWait
from .linear_program import LinearProgram, LinearSolution, Status

Matrix = TypeVar("Matrix", sparse.csr_array, sparse.csc_array)
# HiGHS refuses coefficients of this size. Sides of this size are infinite to it, so wrong ones are refused.
TOO_LARGE, TOO_LARGE_SIDE = 1e15, 1e20
FEASIBLE = 1e-7  # how far a row may be beyond its side

STATUS = {
    highspy.HighsModelStatus.kOptimal: Status.OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: Status.INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: Status.UNBOUNDED,
}


class Method(StrEnum):
    SIMPLEX = "simplex"
    INTERIOR_POINT = "ipm"  # IPX, which solves its systems iteratively
    HIPO = "hipo"  # factorises its systems; needs the package highspy-extras
    PDLP = "pdlp"
    EXACT = "mip"  # branch and bound; only this method keeps `integer`


@dataclass
class Highs:
    """HiGHS with one method, from scratch at every solve.

    Without a time limit every answer of simplex, ipm and hipo is exact to 1e-7. Coefficients of 1e-12 and less in
    size count as 0.

    time_limit_s: of one solve.
    gap: relative gap at which `mip` stops.
    tolerance: relative tolerance of `pdlp`.
    threads: 0 lets HiGHS choose.
    crossover: whether `ipm` and `hipo` end at a vertex.
    presolve: whether the program is reduced first.
    absolute_gap: as `gap`, in units of the objective.
    feasibility: by how much a side may be exceeded.

    Raises:
        ValueError: for a limit, gap or tolerance that is not positive, and for `hipo` if it is not installed.
            `solve` raises it for what HiGHS refuses: coefficients of 1e15 and more in size, lower sides from 1e20,
            and upper sides up to -1e20.
    """

    method: Method = Method.SIMPLEX
    time_limit_s: float = float("inf")
    gap: float = 1e-4
    tolerance: float = 1e-4
    threads: int = 1
    crossover: bool = True
    presolve: bool = True
    absolute_gap: float = 1e-6
    feasibility: float | None = None  # None: HiGHS's own

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

    def solve(self, program: LinearProgram, start: np.ndarray | None = None) -> LinearSolution:
        """Solve a program. `start` is a feasible point (columns,) that `mip` begins with."""
        began = time.perf_counter()
        if not len(program.cost):
            return without_columns(program, began)
        check_sizes(program)
        highs = self.solver()
        pass_model(highs, program, integer=self.method is Method.EXACT)
        if start is not None:
            given = highspy.HighsSolution()
            given.col_value = list(start)
            highs.setSolution(given)
            # What looks for a first feasible point takes half of the time of a small program.
            highs.setOptionValue("mip_heuristic_run_feasibility_jump", False)
        return self.run(highs, program, began)

    def solver(self) -> highspy.Highs:
        """Return HiGHS with these options, without a model."""
        highs = highspy.Highs()
        options: dict[str, bool | int | float | str] = {
            "output_flag": False,
            "threads": self.threads,
            "mip_rel_gap": self.gap,
            "mip_abs_gap": self.absolute_gap,
            "small_matrix_value": 1e-12,  # the least that HiGHS accepts
        }
        if self.method is not Method.EXACT:
            # For "ipm" HiGHS would take hipo if it is installed.
            options["solver"] = "ipx" if self.method is Method.INTERIOR_POINT else str(self.method)
        if self.method is Method.PDLP:
            options["pdlp_optimality_tolerance"] = self.tolerance
            options["primal_feasibility_tolerance"] = options["dual_feasibility_tolerance"] = self.tolerance
        if self.feasibility is not None:
            options["primal_feasibility_tolerance"] = options["mip_feasibility_tolerance"] = self.feasibility
        if not self.crossover:
            options["run_crossover"] = "off"
        if not self.presolve:
            options["presolve"] = "off"
        for name, value in options.items():
            highs.setOptionValue(name, value)
        return highs

    def run(self, highs: highspy.Highs, program: LinearProgram, began: float) -> LinearSolution:
        """Solve the model that HiGHS holds. Columns and rows of the answer are in the model's order."""
        ready = time.perf_counter()
        if np.isfinite(self.time_limit_s):
            highs.setOptionValue("time_limit", highs.getRunTime() + self.time_limit_s)  # its clock never restarts
        with InterruptsWait():
            highs.run()
        seconds = time.perf_counter() - began
        status = STATUS.get(highs.getModelStatus(), Status.STOPPED)
        info, found = highs.getInfo(), highs.getSolution()
        iterations = sum(max(0, getattr(info, f"{kind}_iteration_count")) for kind in ("simplex", "ipm", "pdlp"))
        branched = self.method is Method.EXACT and bool(integer_columns(program).any())
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


def without_columns(program: LinearProgram, began: float) -> LinearSolution:
    """Solve a program without columns. HiGHS only says that it is empty, not whether its rows can be 0."""
    feasible = ((program.row_lower <= FEASIBLE) & (program.row_upper >= -FEASIBLE)).all()
    seconds = time.perf_counter() - began
    if not feasible:
        return LinearSolution(Status.INFEASIBLE, seconds=seconds)
    return LinearSolution(Status.OPTIMAL, np.zeros(0), np.zeros(len(program.row_lower)), 0.0, 0.0, seconds)


def dual_bound(program: LinearProgram, row_dual: np.ndarray) -> float:
    """Return the Lagrangian bound of any multipliers (rows,): the minimum is at least this.

    Multipliers of an infinite side count as 0. The bound is -inf if a reduced cost points to an infinite bound.
    """
    side = np.where(row_dual > 0, program.row_lower, program.row_upper)
    y = np.where(np.isfinite(side), row_dual, 0.0)
    reduced = program.cost - program.matrix.T @ y
    bound = np.where(reduced > 0, program.lower, program.upper)
    moved, priced = np.abs(reduced) > 1e-12, y != 0
    return float(y[priced] @ side[priced] + reduced[moved] @ bound[moved])


def integer_columns(program: LinearProgram) -> np.ndarray:
    """Return (columns,) whether each must be a whole number."""
    return np.zeros(len(program.cost), bool) if program.integer is None else program.integer


def check_sizes(program: LinearProgram) -> None:
    """Raise ValueError for sizes that HiGHS refuses in a new model, but may accept when a model is changed."""
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


def pass_model(highs: highspy.Highs, program: LinearProgram, *, integer: bool) -> None:
    """Hand a program to HiGHS. Raises ValueError if HiGHS refuses it."""
    starts, index, values = parts_of(summed(program.matrix))
    kinds = np.zeros(len(program.cost), np.int32)
    if integer:
        kinds[integer_columns(program)] = int(highspy.HighsVarType.kInteger)
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


def summed(matrix: Matrix) -> Matrix:
    """Return the matrix with one entry per coefficient, as HiGHS refuses more."""
    if matrix.has_canonical_format:
        return matrix
    matrix = matrix.copy()
    matrix.sum_duplicates()
    return matrix


def parts_of(matrix: sparse.csr_array | sparse.csc_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return starts (and the end), indices and values of a matrix in HiGHS's types."""
    return matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data.astype(np.float64)
