"""Solves a linear program by the proximal point method, with semismooth Newton steps inside.

The program is  min c @ x  subject to  A x = s, lower <= x <= upper, row_lower <= s <= row_upper. Around a centre
(x0, s0, y0) an outer step maximises over y

    D(y) = min over x, s of  c @ x + y @ (s - A x) + |(x, s) - (x0, s0)|^2 / (2 sigma)  -  rho |y - y0|^2 / 2

whose inner minimum is a projection: x(y) = clip(x0 - sigma (c - A.T y)), s(y) = clip(s0 - sigma y). D is concave
and once differentiable, with D'(y) = s(y) - A x(y) - rho (y - y0). D'' involves only the columns F strictly
between their bounds: it is - sigma (A_F A_F.T + I_F) - rho. The next centre is (x(y), s(y), y).

A Newton step is solved directly if elimination leaves few rows, and else by conjugate gradients over the columns
F. If these take too many iterations, a sparse factorization solves it. The length of the step is the root of D'
along it, which is found without reading A. For linear programs finitely many such steps end at an optimum, once
sigma is large enough (Rockafellar 1976; Li, Sun and Toh, SIAM J. Optim. 30, 2020, for the dual).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...compiled import kernel
from .elimination import Elimination, eliminate, elimination
from .factorization import DEARER, Factorization
from .kernels import (
    SparseColumns,
    activity,
    activity_sizes,
    conjugate_gradients,
    dot,
    finite_square,
    transposed,
    transposed_sizes,
)

NEWTON_STEPS = 50  # most Newton steps of one outer step
REFUSED = 4  # steps by factors in a row that did not climb, after which no more are tried
HARD = 30  # Newton steps from which on an outer step was too long
CG_TOLERANCE, CG_MOST = 0.05, 2000
CG_PATIENCE, CG_CHEAP = 100, 3e6  # iterations and their work, after which a factorization is tried
WARM = 64.0  # factor of the first step's length near the optimum
SLOPE = 0.1  # a step is long enough when D' along it falls to this part
OF_A_COLUMN = 0.01  # part of a column's own residual that counts; with all of it rounds take 2 to 3 times as long
SHARE = 0.1  # inner residual that may be left, as a part of what the outer step moves
FEW = 100  # most rows left by elimination with which Newton systems are solved directly
WORK = 2e8  # entries read between two looks at the clock
# How a Newton system is solved, and why the kernel comes back.
ELIMINATED, BY_GRADIENTS, IMPATIENT, FACTORISED = 0, 1, 2, 3
DONE, LONG, SYSTEM = 0, 1, 2


class Scaled(NamedTuple):
    """A scaled program whose columns lie without gaps.

    row_scale, column_scale: entry (i, j) is row_scale[i] * a[i, j] * column_scale[j].
    x, y: where the solve starts and ends.
    outside: cost and dual objective of what is left out, so that the gap is that of the whole program.
    """

    sparse: SparseColumns
    cost: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    row_lower: np.ndarray
    row_upper: np.ndarray
    row_scale: np.ndarray
    column_scale: np.ndarray
    x: np.ndarray
    y: np.ndarray
    side_norm: float  # 1 + |row sides|, unscaled
    cost_norm: float  # 1 + |cost|, unscaled
    outside: float


class _Centre(NamedTuple):
    """The centre of an outer step, and how far it goes: sigma for x and s, 1 / rho for y."""

    x: np.ndarray
    s: np.ndarray
    y: np.ndarray
    sigma: float
    rho: float


class _Newton(NamedTuple):
    """Where the Newton steps are, beside the program's x and y, and the system of the next one.

    `reduced` is cost - A.T @ y. The system is made of the free columns, the free rows and the slope D'(y).
    """

    s: np.ndarray
    reduced: np.ndarray
    is_free: np.ndarray
    row_free: np.ndarray
    slope: np.ndarray
    step: np.ndarray


class _Sizes(NamedTuple):
    """The size of each row and column, relative to which its own residual counts."""

    row: np.ndarray
    column: np.ndarray


@dataclass(frozen=True)
class Residuals:
    """Relative residuals, unscaled.

    primal: |A x - sides| / (1 + |sides|), or that of the worst row relative to its own size if it is larger.
    dual: |wrong reduced costs| / (1 + |cost|), or OF_A_COLUMN of the worst column's if it is larger.
    gap: between objective and bound, or the worth of both residuals at y and x if it is larger.

    A large side or cost of one row or column does not excuse breaking another. On badly conditioned programs a
    residual that is small relative to the sides can be a large part of the objective.
    """

    primal: float
    dual: float
    gap: float
    objective: float
    bound: float

    @property
    def worst(self) -> float:
        return float(np.max((self.primal, self.dual, self.gap)))  # NaN where one is


@dataclass
class Steps:
    """How far a step goes: sigma for x and s, 1 / rho for y. `factorises`: whether no factors were too large."""

    sigma: float
    rho: float
    least_rho: float
    most_sigma: float
    factorises: bool = True

    @classmethod
    def cold(cls, program: Scaled, factorises: bool = True) -> Steps:
        sides = finite_square(program.row_lower) + finite_square(program.row_upper)
        sigma = (1.0 + math.sqrt(sides)) / (1.0 + math.sqrt(dot(program.cost, program.cost)))
        return cls(sigma, 1e-5 * sigma, 1e-12 * sigma, 1e12 * sigma, factorises)

    @classmethod
    def warm(cls, program: Scaled, factorises: bool = True) -> Steps:
        """Return the steps for a program that is near its optimum, which few long steps reach."""
        steps = cls.cold(program, factorises)
        steps.sigma *= WARM
        return steps


@kernel
def _slope_along(t: float, program: Scaled, centre: _Centre, newton: _Newton, along: np.ndarray) -> float:
    """Return D'(y + t step) @ step, where along = A.T @ step."""
    sigma, y, step = centre.sigma, program.y, newton.step
    total = 0.0
    for j in range(len(along)):
        if along[j] != 0.0:
            at = centre.x[j] - sigma * (newton.reduced[j] - t * along[j])
            total -= along[j] * min(max(at, program.lower[j]), program.upper[j])
    for i in range(len(y)):
        at = centre.s[i] - sigma * (y[i] + t * step[i])
        pull = centre.rho * (y[i] + t * step[i] - centre.y[i])
        total += step[i] * (min(max(at, program.row_lower[i]), program.row_upper[i]) - pull)
    return total


@kernel
def _root(h0: float, program: Scaled, centre: _Centre, newton: _Newton, along: np.ndarray) -> float:
    """Return a t at which D' along the step, which falls from h0 > 0, is at most SLOPE h0 in size."""
    t, low, high, at_low, at_high = 1.0, 0.0, math.inf, h0, 0.0
    for _ in range(40):
        h = _slope_along(t, program, centre, newton, along)
        if abs(h) <= SLOPE * h0:
            break
        if h > 0.0:
            low, at_low = t, h
        else:
            high, at_high = t, h
        if high == math.inf:
            t *= 3.0
        else:
            t = low + (high - low) * min(max(at_low / (at_low - at_high), 0.1), 0.9)
    return t


@kernel
def _advance(program: Scaled, centre: _Centre, newton: _Newton) -> bool:
    """Move y and `reduced` along the step as far as D gains. Return False if D does not climb along it."""
    h0 = dot(newton.slope, newton.step)
    if not h0 > 0.0:
        return False
    along = np.empty(len(newton.reduced))
    transposed(program.sparse, newton.step, along)
    t = _root(h0, program, centre, newton, along)
    for i in range(len(program.y)):
        program.y[i] += t * newton.step[i]
    for j in range(len(along)):
        newton.reduced[j] -= t * along[j]
    return True


@kernel
def _ascend(
    program: Scaled,
    centre: _Centre,
    newton: _Newton,
    sizes: _Sizes,
    rule: Elimination,
    how: int,
    share: float,
    floor: float,
    newton_steps: int,
    gradients: int,
    given: bool,
) -> tuple[int, int, int, float, float]:
    """Make Newton steps on D until its residual is `share` of what the outer step moves, or `floor`.

    The program's x and y, and `newton`, are updated. Return why it ended, Newton steps, iterations within them,
    what x moves and what y moves. The last two are residuals, or the gap that they leave if it is larger. After
    SYSTEM the caller solves the system of `newton`, and calls again with `given` and its step.

    Args:
        gradients: the most iterations of one step.
    """
    sparse, cost, lower, upper = program.sparse, program.cost, program.lower, program.upper
    row_lower, row_upper, x, y = program.row_lower, program.row_upper, program.x, program.y
    x0, s0, y0, sigma, rho = centre
    s, reduced, is_free, row_free, slope, step = newton
    rows, columns = len(row_lower), len(cost)
    activities = np.empty(rows)
    scratch = np.empty((4, rows))
    free = np.empty(columns, np.int64)
    steps, iterations, climbs, work = 0, 0, True, WORK
    if given:
        climbs = _advance(program, centre, newton)
        steps, iterations = int(climbs), 1
    while True:
        count, moved, most_moved, objective, open_gap = 0, 0.0, 0.0, program.outside, 0.0
        free_entries = 0
        for j in range(columns):
            at = x0[j] - sigma * reduced[j]
            is_free[j] = lower[j] < at < upper[j]
            if at <= lower[j]:
                x[j] = lower[j]
            elif at >= upper[j]:
                x[j] = upper[j]
            else:
                x[j] = at
                free[count] = j
                count += 1
                free_entries += sparse.end[j] - sparse.start[j]
                side = lower[j] if reduced[j] > 0.0 else upper[j]
                open_gap += abs(reduced[j]) * abs(at if math.isinf(side) else at - side)
            moved += (x[j] - x0[j]) ** 2
            most_moved = max(most_moved, abs(x[j] - x0[j]) / sizes.column[j])
            objective += cost[j] * x[j]
        activity(sparse, x, activities)
        left, most_left, left_gap, held, most_held, held_gap = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(rows):
            at = s0[i] - sigma * y[i]
            s[i] = min(max(at, row_lower[i]), row_upper[i])
            row_free[i] = row_lower[i] < at < row_upper[i]
            if row_free[i]:
                side = row_lower[i] if y[i] > 0.0 else row_upper[i]
                open_gap += abs(y[i]) * abs(at if math.isinf(side) else at - side)
            moved += (s[i] - s0[i]) ** 2
            pull = rho * (y[i] - y0[i])
            slope[i] = s[i] - activities[i] - pull
            left += slope[i] ** 2
            most_left = max(most_left, abs(slope[i]) / sizes.row[i])
            left_gap += y[i] * slope[i]
            held += pull**2
            most_held = max(most_held, abs(pull) / sizes.row[i])
            held_gap += y[i] * pull
        unit = 1.0 + abs(objective)
        primal_move = max(math.sqrt(moved) / sigma / program.cost_norm, open_gap / unit)
        dual_move = max(math.sqrt(held) / program.side_norm, abs(held_gap) / unit)
        rest = max(math.sqrt(left) / program.side_norm, abs(left_gap) / unit)
        enough = max(floor, share * max(primal_move, dual_move))
        most_enough = max(enough, share * max(most_moved / sigma, most_held))  # for the worst row
        if (rest <= enough and most_left <= most_enough) or left == 0.0:
            return DONE, steps, iterations, primal_move, dual_move
        if steps >= newton_steps or not climbs:
            return DONE, steps, iterations, primal_move, dual_move
        if work <= 0.0:
            return LONG, steps, iterations, primal_move, dual_move
        if how == FACTORISED:
            return SYSTEM, steps, iterations, primal_move, dual_move
        if how == ELIMINATED:
            eliminate(sparse, rule, is_free, row_free, sigma, rho, slope, step)
            tried, took = 1, 4.0 * free_entries + rule.dense**3
        else:
            tried = conjugate_gradients(
                sparse, free[:count], row_free, sigma, rho, slope, step, CG_TOLERANCE, gradients, scratch
            )
            took = tried * (2.0 * free_entries + 6 * rows)
            if how == IMPATIENT and tried >= gradients:
                return SYSTEM, steps, iterations + tried, primal_move, dual_move
        climbs = _advance(program, centre, newton)
        if not climbs:
            return DONE, steps, iterations, primal_move, dual_move
        steps += 1
        iterations += tried
        work -= took + 3 * len(sparse.row) + 10 * (columns + rows)


@kernel
def _reduce(program: Scaled, reduced: np.ndarray) -> None:
    """Write the reduced costs at y."""
    transposed(program.sparse, program.y, reduced)
    for j in range(len(reduced)):
        reduced[j] = program.cost[j] - reduced[j]


@kernel
def _residuals(program: Scaled, reduced: np.ndarray, sizes: _Sizes) -> tuple[float, float, float, float, float]:
    """Return relative primal and dual residuals, unscaled, both objectives, and the worth of the residuals.

    `reduced` is computed anew, as steps leave in it what was rounded when prices were larger.
    """
    cost, lower, upper, x, y = program.cost, program.lower, program.upper, program.x, program.y
    row_lower, row_upper, row_scale = program.row_lower, program.row_upper, program.row_scale
    primal, dual, objective, bound, worth = 0.0, 0.0, program.outside, program.outside, 0.0
    worst_row, worst_column = 0.0, 0.0
    activities, open_y = np.empty(len(y)), np.zeros(len(y))
    _reduce(program, reduced)
    activity(program.sparse, x, activities)
    activity_sizes(program.sparse, x, sizes.row)
    for i in range(len(y)):
        nearest = min(max(activities[i], row_lower[i]), row_upper[i])
        off = activities[i] - nearest
        sizes.row[i] += row_scale[i] + abs(nearest)
        worst_row = max(worst_row, abs(off) / sizes.row[i])
        primal += (off / row_scale[i]) ** 2
        worth += abs(y[i] * off)
        side = row_lower[i] if y[i] > 0.0 else row_upper[i]
        if math.isinf(side):
            open_y[i] = y[i]
            dual += (y[i] * row_scale[i]) ** 2
            worth += abs(y[i] * activities[i])
        else:
            bound += y[i] * side
    wrong = np.empty(len(cost))
    transposed_sizes(program.sparse, open_y, wrong)
    transposed_sizes(program.sparse, y, sizes.column)
    for j in range(len(cost)):
        objective += cost[j] * x[j]
        side = lower[j] if reduced[j] > 0.0 else upper[j]
        if math.isinf(side):
            wrong[j] += abs(reduced[j])
            dual += (reduced[j] / program.column_scale[j]) ** 2
            worth += abs(reduced[j] * x[j])
        else:
            bound += reduced[j] * side
        sizes.column[j] += program.column_scale[j] + abs(cost[j])
        worst_column = max(worst_column, OF_A_COLUMN * wrong[j] / sizes.column[j])
    primal = max(math.sqrt(primal) / program.side_norm, worst_row)
    dual = max(math.sqrt(dual) / program.cost_norm, worst_column)
    return primal, dual, objective, bound, worth


@kernel
def _begun(program: Scaled) -> _Newton:
    """Bring the program's x within its bounds. Return where the Newton steps begin."""
    columns, rows = len(program.cost), len(program.y)
    x, reduced, s = program.x, np.empty(columns), np.empty(rows)
    _reduce(program, reduced)
    for j in range(columns):
        x[j] = min(max(x[j], program.lower[j]), program.upper[j])
    activity(program.sparse, x, s)
    for i in range(rows):
        s[i] = min(max(s[i], program.row_lower[i]), program.row_upper[i])
    return _Newton(
        s, reduced, np.empty(columns, np.bool_), np.empty(rows, np.bool_), np.empty(rows), np.empty(rows)
    )


class Proximal:
    """Makes outer steps on one scaled program, whose x and y are updated in place."""

    def __init__(self, program: Scaled, steps: Steps) -> None:
        self.program, self.steps = program, steps
        self.iterations = 0  # of conjugate gradients; a system that is solved directly counts as one
        columns, rows = len(program.cost), len(program.y)
        self.newton = _begun(program)
        self.x0, self.y0 = program.x.copy(), program.y.copy()
        self.share, self.floor = SHARE, math.inf
        self.rule = elimination(program.sparse, rows)
        many = IMPATIENT if steps.factorises else BY_GRADIENTS
        self.how = ELIMINATED if self.rule.dense <= FEW else many
        self.gradient = 2.0 * len(program.sparse.row) + 6 * rows  # work of one iteration over all columns
        self.factorization: Factorization | None = None
        self.refused = 0  # steps by factors in a row that did not climb
        self.sizes = _Sizes(np.empty(rows), np.empty(columns))
        self.residuals = self._judged()

    def _judged(self) -> Residuals:
        primal, dual, objective, bound, worth = _residuals(self.program, self.newton.reduced, self.sizes)
        gap = max(abs(objective - bound), worth) / (1.0 + max(abs(objective), abs(bound)))
        return Residuals(primal, dual, gap, objective, bound)

    def step(self, tolerance: float, deadline: float) -> bool:
        """Make one outer step. Return False if the deadline (of time.perf_counter) broke it off."""
        steps, program = self.steps, self.program
        self.floor = min(self.floor, 0.1 * tolerance)
        self.x0[:], self.y0[:] = program.x, program.y
        centre = _Centre(self.x0, self.newton.s.copy(), self.y0, steps.sigma, steps.rho)
        newton, given = 0, False
        while True:
            why, more, iterations, primal_move, dual_move = _ascend(
                program,
                centre,
                self.newton,
                self.sizes,
                self.rule,
                self.how,
                self.share,
                self.floor,
                NEWTON_STEPS - newton,
                self._most_gradients(),
                given,
            )
            newton += more
            self.iterations += iterations
            if given:
                self.refused = 0 if more else self.refused + 1
            if given and self.refused == REFUSED:
                self.how = BY_GRADIENTS
            elif given and not more:
                newton = HARD  # outer steps are too long for the factors
                break
            elif why == DONE or newton >= NEWTON_STEPS:
                break
            if time.perf_counter() > deadline:
                self.residuals = self._judged()
                return False
            given = why == SYSTEM and self._factorised()
        if newton == 0:
            self.floor *= 0.1  # the step was within the floor, but the program is not solved
        if newton >= HARD:
            steps.rho, steps.sigma = min(4.0 * steps.rho, steps.sigma), steps.sigma / 1.5
        else:
            faster = 4.0 if newton <= 4 else 1.5
            if primal_move > 0.5 * dual_move:
                steps.sigma = min(faster * steps.sigma, steps.most_sigma)
            if dual_move > 0.5 * primal_move:
                steps.rho = max(steps.rho / faster, steps.least_rho)
        self.residuals = self._judged()
        return True

    def _most_gradients(self) -> int:
        if self.how == IMPATIENT:
            return min(max(CG_PATIENCE, int(CG_CHEAP / self.gradient)), CG_MOST)
        return max(100, min(2 * len(self.program.y), CG_MOST))

    def _factorised(self) -> bool:
        """Compute the step by a factorization and return whether it could.

        If it cannot, or costs too much, conjugate gradients compute all further steps.
        """
        steps, newton = self.steps, self.newton
        if self.factorization is None:
            self.factorization = Factorization(self.program.sparse, len(self.program.y))
        step = self.factorization.solve(newton.is_free, newton.row_free, steps.sigma, steps.rho, newton.slope)
        steps.factorises &= self.factorization.work <= DEARER * CG_MOST * self.gradient
        self.how = FACTORISED if step is not None and steps.factorises else BY_GRADIENTS
        if step is not None:
            newton.step[:] = step
        return step is not None
