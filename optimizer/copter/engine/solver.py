"""Solves a program in its storage: a few columns at a time, from where the last solve ended.

Columns far from being of use are left at their bound. A solve works on columns that are not at a bound, or that a
small change of prices would move. Then it prices all others, and takes in those that would improve the result. It
is done when none would. What it works on is gathered, scaled, and handed to the proximal method.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ...linear_program import Status
from . import kernels
from .certificates import Certificates
from .own_prices import improve_own_prices
from .proximal import OF_A_COLUMN, Proximal, Residuals, Scaled, Steps
from .scaling import rescale
from .solution import Outcome
from .storage import Storage

SMALL = 500  # columns up to which a solve works on all
WORKED_ON = 250  # columns to begin with, in addition to two per row
UNPROVEN = 20_000  # columns up to which a solve works on all if no bound is proven
SAMPLE = 4096  # columns that are looked at to find how many a margin lets in
ROUGH = 1e-2  # tolerance for all columns if there is nothing to start from
PARALLEL = 1_000_000  # entries above which threads share pricing
# After PROOF_EVERY outer steps a proof is sought, unless residuals fell below the part SLOW meanwhile.
PROOF_EVERY, SLOW = 4, 0.3

# Small residuals can mislead if no near bound is proven. Then the solve goes on to the part CLOSER of the
# tolerance. It takes at most about LONGER times the outer steps so far, which are short by then.
CLOSER, LONGER = 0.1, 10
FIRST_LOOK = 40  # outer steps of a first look at feasibility alone; each further look is twice as long
SLOW_FOR = 16  # stretches without a proof after which feasibility is checked anyway, and at powers of 2 beyond
CLOSER_BY, FINEST = 1e4, 1e-13  # factor by which each look at the same place is closer; the least residual sought


class Solver:
    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.solved = False  # whether x and y are something to start from
        self.factorises = True  # whether no factors were too large since the last cold solve

    def solve(self, tolerance: float, threads: int, time_limit_s: float, warm: bool) -> Outcome:
        began = time.perf_counter()
        warm = warm and self.solved
        factorises = self.factorises or not warm
        run = _Run(self.storage, tolerance, threads, began, began + time_limit_s, factorises)
        if not warm:
            self.storage.x[:] = 0.0
            self.storage.y[:] = 0.0
        rescale(self.storage, everything=not warm)
        try:
            # A program without an optimum can overflow before it is stopped.
            with np.errstate(over="ignore", invalid="ignore"):
                outcome = run.solve(warm)
        finally:
            run.close()
            self.factorises = run.factorises
        # The next solve goes on from one that was stopped, but not from rays of one without an optimum.
        self.solved = outcome.status in (Status.OPTIMAL, Status.STOPPED) and math.isfinite(outcome.objective)
        return outcome


class _Run:
    """One solve."""

    def __init__(
        self, storage: Storage, tolerance: float, threads: int, began: float, deadline: float, factorises: bool
    ) -> None:
        self.storage, self.tolerance, self.began, self.deadline = storage, tolerance, began, deadline
        top, rows = storage.columns.top, storage.rows.top
        self.cost, self.x = storage.cost[:top], storage.x[:top]
        self.lower, self.upper = storage.lower[:top], storage.upper[:top]
        self.sparse = storage.sparse
        self.y = storage.y[:rows]
        self.row_lower, self.row_upper = storage.row_lower[:rows], storage.row_upper[:rows]
        self.side_norm = 1.0 + kernels.side_length(self.row_lower, self.row_upper)
        self.cost_norm = 1.0 + math.sqrt(kernels.dot(self.cost, self.cost))
        self.reduced = np.empty(top)
        self.held = np.zeros(top, dtype=bool)
        self.factorises = factorises  # whether no factors have been too large
        self.is_near = False  # whether x and y are near an optimum, at least of some columns
        self.iterations = 0
        self.certificates = Certificates(storage)
        self._proven: float | None = None  # bound at the present y
        self.feasible, self.settled = False, False  # known to be feasible to the tolerance, and to FINEST
        self.slow = 0  # stretches without a proof
        self.looks = FIRST_LOOK  # outer steps of the next look for a proof that nothing is feasible
        self.pool = None
        if threads > 1 and storage.entries.live > PARALLEL:
            self.pool = ThreadPoolExecutor(threads)
        self.chunks = np.linspace(0, top, (threads if self.pool else 1) + 1).astype(np.int64)

    def close(self) -> None:
        if self.pool:
            self.pool.shutdown()

    def solve(self, warm: bool) -> Outcome:
        np.clip(self.x, self.lower, self.upper, out=self.x)
        self.is_near = warm
        top = len(self.cost)
        shrinks = top > SMALL and top > 8 * len(self.y)
        columns = np.arange(top)
        if shrinks and not warm:
            verdict = self._work_on(columns, ROUGH, True)
            if verdict is not None:
                return self._finish(verdict, self._judge())
        if shrinks or warm:
            self._price()
        if warm:
            self._improve_own_prices()
        if shrinks:
            columns = self._choose(2 * len(self.y) + WORKED_ON)
        patient = False
        while True:
            self.held[columns] = True
            whole = len(columns) == top
            verdict = self._work_on(columns, self.tolerance if whole else 0.5 * self.tolerance, whole or patient)
            residuals = self._judge()
            if whole or verdict is not None:
                return self._finish(verdict, residuals)
            more = self._wanted(0.0)
            if residuals.worst <= self.tolerance:
                bound = self._bound(residuals)
                gap = residuals.objective - bound
                if gap <= self.tolerance * abs(residuals.objective) or (math.isinf(bound) and top > UNPROVEN):
                    return self._finish(None, residuals)
                if math.isinf(bound):
                    columns = np.arange(top)
                    continue
            if time.perf_counter() > self.deadline:
                return self._finish(Status.STOPPED, residuals)
            if not len(more) and patient:
                columns = np.arange(top)
                continue
            patient = not len(more)
            most = max(len(columns), WORKED_ON)  # there may be none yet
            if len(more) > most:
                # Prices that far off want columns that better ones will not, so the most useful come first.
                size = -np.abs(self.reduced[more] * self.storage.column_scale[more])
                more = np.sort(more[np.argpartition(size, most)[:most]])
            columns = np.concatenate([columns, more])

    def _finish(self, verdict: Status | None, residuals: Residuals) -> Outcome:
        status = Status.OPTIMAL if verdict is None else verdict
        without = {Status.INFEASIBLE: math.nan, Status.UNBOUNDED: -math.inf}
        bound = -math.inf if status in without else self._bound(residuals)
        return Outcome(
            status,
            self.x.copy(),
            self.y.copy(),
            without.get(status, residuals.objective),
            bound,
            residuals.primal,
            residuals.dual,
            self.iterations,
            time.perf_counter() - self.began,
        )

    def _bound(self, residuals: Residuals) -> float:
        if self._proven is None:
            self._proven = residuals.bound if residuals.dual == 0.0 else self.certificates.bound(self.y)
        return self._proven

    def _work_on(self, columns: np.ndarray, tolerance: float, patient: bool) -> Status | None:
        """Bring x and y to `tolerance` over these columns and leave the others. Return a verdict, or None if done.

        If progress is slow, a `patient` call looks for a proof that there is no optimum. Any other call just ends,
        as columns may be missing. Over all columns it goes CLOSER if no near bound is proven.
        """
        program = self._gathered(columns)
        # With steps as long as the last ones of the previous columns these would take many more.
        steps = (Steps.warm if self.is_near else Steps.cold)(program, self.factorises)
        proximal = Proximal(program, steps)
        rows = self.storage.row_scale[: len(self.y)]
        verdict: Status | None = None
        self._proven = None
        count, before, most = 0, math.inf, math.inf
        within: tuple[np.ndarray, np.ndarray] | None = None
        is_last = len(columns) == len(self.cost) and tolerance == self.tolerance
        while True:
            residuals = proximal.residuals
            worst, aim = residuals.worst, CLOSER * tolerance if within else tolerance
            if worst <= aim:
                if within or not is_last or self._proves(residuals, program.y * rows):
                    break
                within, most = (program.x.copy(), program.y.copy()), LONGER * (count + LONGER)
                continue
            over = math.isnan(worst) or time.perf_counter() > self.deadline
            if over or count >= most or not proximal.step(aim, self.deadline):
                if within:
                    program.x[:], program.y[:] = within
                if not within or time.perf_counter() > self.deadline:
                    verdict = Status.STOPPED
                break
            count += 1
            if count % PROOF_EVERY == 0 and not within:
                if worst > SLOW * before:
                    verdict = self._proof(program, proximal, columns) if patient else None
                    if verdict is not None or not patient:
                        break
                before = worst
        self.iterations += proximal.iterations
        self.factorises, self.is_near = steps.factorises, True
        self.x[columns] = np.clip(program.x * program.column_scale, self.lower[columns], self.upper[columns])
        self.y[:] = program.y * rows
        return verdict

    def _proves(self, residuals: Residuals, prices: np.ndarray) -> bool:
        """Return whether the bound of these prices is within the tolerance."""
        if residuals.dual == 0.0:
            return True
        objective, bound = residuals.objective, self.certificates.bound(prices)
        near = self.tolerance * (1.0 + max(abs(objective), abs(bound)))
        return math.isfinite(bound) and objective - bound <= near

    def _proof(self, program: Scaled, proximal: Proximal, columns: np.ndarray) -> Status | None:
        """Return a verdict if the last step, or y itself, is a ray that proves that there is no optimum."""
        if self._refuted(program, proximal):
            return Status.INFEASIBLE
        ray = np.zeros(len(self.cost))
        ray[columns] = (program.x - proximal.x0) * program.column_scale
        if self.certificates.improving(ray):
            verdict = None if self.feasible else self._least_violation(math.inf, closer=False)
            return Status.UNBOUNDED if verdict is None and self.feasible else verdict
        if self.certificates.nearly_improving(ray):
            proximal.share *= 0.1  # more exact steps may prove it
        return None if self.settled else self._look(program.y * program.row_scale)

    def _look(self, prices: np.ndarray) -> Status | None:
        """Check whether anything is feasible, if prices nearly show that nothing is or progress is slow for long.

        A program that is infeasible by a billionth may show no such prices, but its solve never ends. Once it is
        known to be feasible to the tolerance, looks take at most a third of all steps.
        """
        self.slow += 1
        if not self.feasible and self.certificates.nearly_infeasible(prices):
            steps, self.looks = self.looks, 2 * self.looks
        elif self.slow >= SLOW_FOR and self.slow & (self.slow - 1) == 0:
            steps = self.slow
        else:
            return None
        return self._least_violation(steps, closer=True)

    def _least_violation(self, steps: float, closer: bool) -> Status | None:
        """Check whether anything is feasible, by `steps` outer steps on a program that only pays for broken rows.

        That program always has an optimum. If it is not 0, its prices are a ray that proves that nothing is
        feasible. The ray is far cleaner than those of a program without an optimum.

        If rows are kept to the tolerance, and `closer`, it looks again around that point, enlarged by CLOSER_BY.
        It ends when only rounding is left (iterative refinement: Gleixner et al., INFORMS J. Comput. 28, 2016).
        """
        around, size, prices = self.x.copy(), 1.0, np.zeros(len(self.y))
        np.clip(around, self.lower, self.upper, out=around)
        while True:
            program = self._elastic(around, size, prices)
            proximal = Proximal(program, Steps.cold(program))
            x, near = around, False
            while not near:
                if steps <= 0:
                    return None
                if time.perf_counter() > self.deadline or not proximal.step(self.tolerance, self.deadline):
                    return Status.STOPPED
                if self.certificates.infeasible(program.y * program.row_scale):
                    return Status.INFEASIBLE
                moved = program.x[: len(around)] * program.column_scale[: len(around)] / size
                x = np.clip(around + moved, self.lower, self.upper)
                near = self._primal(x) <= self.tolerance / size
                steps -= 1
            self.feasible = True
            if not closer:
                return None
            around, size, prices = x, size * CLOSER_BY, program.y
            self.settled = self.tolerance / size < FINEST
            if self.settled:
                return None

    def _elastic(self, around: np.ndarray, size: float, prices: np.ndarray) -> Scaled:
        """Return a scaled program that pays for rows broken by x = around + variables / size, from `prices` on."""
        program = self._gathered(np.arange(len(self.cost)))
        rows, columns, spare = len(self.y), len(self.cost), 2 * len(self.y)
        start, _, row, value = program.sparse
        begin = np.concatenate([start, len(row) + np.arange(spare + 1)])
        entry_row = np.concatenate([row, np.arange(rows), np.arange(rows)]).astype(np.int32)
        entry_value = np.concatenate([value, np.ones(rows), -np.ones(rows)])
        used = np.empty(rows)
        kernels.activity(self.sparse, around, used)
        used *= program.row_scale
        around = around / program.column_scale
        return program._replace(
            sparse=kernels.SparseColumns.packed(begin, entry_row, entry_value),
            cost=np.concatenate([np.zeros(columns), np.ones(spare)]),
            lower=np.concatenate([(program.lower - around) * size, np.zeros(spare)]),
            upper=np.concatenate([(program.upper - around) * size, np.full(spare, np.inf)]),
            row_lower=(program.row_lower - used) * size,
            row_upper=(program.row_upper - used) * size,
            column_scale=np.concatenate([program.column_scale, np.ones(spare)]),
            x=np.zeros(columns + spare),
            y=prices.copy(),
            cost_norm=1.0 + math.sqrt(spare),
            outside=0.0,
        )

    def _refuted(self, program: Scaled, proximal: Proximal) -> bool:
        rays = (program.y - proximal.y0, program.y)
        return any(self.certificates.infeasible(ray * program.row_scale) for ray in rays)

    def _gathered(self, columns: np.ndarray) -> Scaled:
        storage = self.storage
        row_scale, column_scale = storage.row_scale[: len(self.y)], storage.column_scale[columns]
        left = np.zeros(len(self.y))
        outside = 0.0
        if len(columns) < len(self.cost):
            others = self.x.copy()
            others[columns] = 0.0
            kernels.activity(self.sparse, others, left)
            outside = kernels.dot(self.cost, others)
        return Scaled(
            kernels.gather(columns, self.sparse, row_scale, storage.column_scale),
            self.cost[columns] * column_scale,
            self.lower[columns] / column_scale,
            self.upper[columns] / column_scale,
            (self.row_lower - left) * row_scale,
            (self.row_upper - left) * row_scale,
            row_scale,
            column_scale,
            self.x[columns] / column_scale,
            self.y / row_scale,
            self.side_norm,
            self.cost_norm,
            outside,
        )

    # All columns

    def _price(self) -> tuple[float, float, float]:
        """Compute all reduced costs. Return their dual objective, squared violation, and its worth at x."""

        def part(i: int) -> tuple[float, float, float]:
            return kernels.price(
                self.chunks[i],
                self.chunks[i + 1],
                self.sparse,
                self.cost,
                self.lower,
                self.upper,
                self.x,
                self.y,
                self.reduced,
            )

        parts = list((self.pool.map if self.pool else map)(part, range(len(self.chunks) - 1)))
        bound, wrong, off = (sum(part[i] for part in parts) for i in range(3))
        return bound, wrong, off

    def _improve_own_prices(self) -> None:
        bounds, sides = (self.lower, self.upper), (self.row_lower, self.row_upper)
        kind = self.storage.kind[: len(self.y)]
        improve_own_prices(self.sparse, kind, *bounds, *sides, self.y, self.reduced)

    def _judge(self) -> Residuals:
        """Return the residuals of the whole program at x and y."""
        bound, wrong, off = self._price()
        sides = self.row_lower, self.row_upper
        bounds = self.lower, self.upper
        found = kernels.judge(self.sparse, self.cost, *bounds, *sides, self.x, self.y, self.reduced)
        objective, bound, wrong, off = found.objective, bound + found.bound, wrong + found.wrong, off + found.off
        gap = max(abs(objective - bound), off) / (1.0 + max(abs(objective), abs(bound)))
        primal = max(math.sqrt(found.broken) / self.side_norm, found.worst_row)
        dual = max(math.sqrt(wrong) / self.cost_norm, OF_A_COLUMN * found.worst_column)
        return Residuals(primal, dual, gap, objective, bound)

    def _primal(self, x: np.ndarray) -> float:
        """Return the relative primal residual of x."""
        broken, worst = kernels.broken_rows(self.sparse, self.row_lower, self.row_upper, x, np.empty(len(self.y)))
        return max(math.sqrt(broken) / self.side_norm, worst)

    def _wanted(self, margin: float) -> np.ndarray:
        scale = self.storage.column_scale
        out = np.empty(len(self.cost), dtype=np.int64)
        count = kernels.wanted(
            0, len(self.cost), self.reduced, scale, self.x, self.lower, self.upper, self.held, margin, out
        )
        return out[:count].copy()

    def _choose(self, target: int) -> np.ndarray:
        """Return about `target` columns that the least changes of prices would move, and all that move already."""
        top = len(self.cost)
        step = max(1, top // SAMPLE)
        away = kernels.distances(step, self.reduced, self.storage.column_scale, self.x, self.lower, self.upper)
        place = min(len(away) * target // top, len(away) - 1)
        return self._wanted(max(float(np.partition(away, place)[place]) if len(away) else 0.0, 0.0))
