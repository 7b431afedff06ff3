"""The proximal point method for a linear program, with semismooth Newton steps inside.

The program is  min c @ x  subject to  A x = s, lower <= x <= upper, row_lower <= s <= row_upper. Around a centre
(x0, s0, y0) an outer step maximises over y

    D(y) = min over x, s of  c @ x + y @ (s - A x) + |(x, s) - (x0, s0)|^2 / (2 sigma)  -  rho |y - y0|^2 / 2

whose inner minimum is a projection: x(y) = clip(x0 - sigma (c - A.T y)), s(y) = clip(s0 - sigma y). D is concave,
once differentiable, D'(y) = s(y) - A x(y) - rho (y - y0), and D'' involves only the columns strictly between their
bounds: - sigma (A_F A_F.T + I_F) - rho. A Newton step is solved directly where elimination leaves few rows, else
by conjugate gradients over those columns or, where these take too many, by a sparse factorization; its length is
the root of D' along it, found without touching A.
(x(y), s(y), y) is the next centre. For linear programs such steps end at an optimum after finitely many, once
sigma is large enough (Rockafellar 1976; Li, Sun and Toh, SIAM J. Optim. 30, 2020, go this way from the dual).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numba import njit

from .elimination import Elimination, eliminate, elimination
from .factorization import DEARER, Factorization
from .kernels import activity, conjugate_gradients, transposed

NEWTON_STEPS = 50  # of one outer step
HARD = 30  # Newton steps from which an outer step was too long
CG_TOLERANCE, CG_MOST = 0.05, 2000
CG_PATIENCE, CG_CHEAP = 100, 3e6  # of them, and their work, after which a factorization is tried
SLOPE = 0.1  # a step along which D' falls to this share is long enough
SHARE = 0.1  # inner residual left, of what the outer step moves
FEW = 100  # rows left by elimination up to which Newton's systems are solved directly
WORK = 2e8  # entries touched between two looks at the clock
# How a Newton system is solved, and why the kernel comes back.
ELIMINATED, BY_GRADIENTS, IMPATIENT, FACTORISED = 0, 1, 2, 3
DONE, LONG, SYSTEM = 0, 1, 2


@dataclass
class Scaled:
    """A scaled program: columns start, row, value; bounds of rows and columns; x, y are where it starts and ends.

    row_scale, column_scale lead back: entry (i, j) is row_scale[i] * a[i, j] * column_scale[j]. outside: cost and
    dual objective of what was left out, so that the gap is that of the whole program.
    """

    start: np.ndarray
    row: np.ndarray
    value: np.ndarray
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
    outside: float = 0.0


@dataclass(frozen=True)
class Residuals:
    """Relative, unscaled: primal |A x - sides| / (1 + |sides|), dual |wrong reduced costs| / (1 + |cost|), gap.

    gap: between objective and bound, or what both residuals may be worth (at y and x) if that is more: on badly
    conditioned programs a residual that is small beside the sides can be a large part of the objective.
    """

    primal: float
    dual: float
    gap: float
    objective: float
    bound: float

    @property
    def worst(self) -> float:
        return max(self.primal, self.dual, self.gap)


@dataclass
class Steps:
    """How far a step goes: sigma for x and s, 1 / rho for y. factorises: no factors have been too large."""

    sigma: float
    rho: float
    least_rho: float
    most_sigma: float
    factorises: bool = True

    @classmethod
    def cold(cls, program: Scaled, factorises: bool = True) -> Steps:
        sides = np.concatenate([program.row_lower, program.row_upper])
        sigma = (1.0 + float(np.linalg.norm(sides[np.isfinite(sides)]))) / (
            1.0 + float(np.linalg.norm(program.cost))
        )
        return cls(sigma, 1e-5 * sigma, 1e-12 * sigma, 1e12 * sigma, factorises)


@njit(cache=True, nogil=True)
def _slope(
    t: float,
    x0: np.ndarray,
    reduced: np.ndarray,
    along: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    s0: np.ndarray,
    y0: np.ndarray,
    y: np.ndarray,
    step: np.ndarray,
    row_lower: np.ndarray,
    row_upper: np.ndarray,
    sigma: float,
    rho: float,
) -> float:
    """D'(y + t step) @ step; along = A.T @ step."""
    total = 0.0
    for j in range(len(reduced)):
        if along[j] != 0.0:
            at = x0[j] - sigma * (reduced[j] - t * along[j])
            total -= along[j] * min(max(at, lower[j]), upper[j])
    for i in range(len(y)):
        at = s0[i] - sigma * (y[i] + t * step[i])
        total += step[i] * (min(max(at, row_lower[i]), row_upper[i]) - rho * (y[i] + t * step[i] - y0[i]))
    return total


@njit(cache=True, nogil=True)
def _root(
    h0: float,
    x0: np.ndarray,
    reduced: np.ndarray,
    along: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    s0: np.ndarray,
    y0: np.ndarray,
    y: np.ndarray,
    step: np.ndarray,
    row_lower: np.ndarray,
    row_upper: np.ndarray,
    sigma: float,
    rho: float,
) -> float:
    """A t at which D' along the step, which falls from h0 > 0, is at most SLOPE h0 in size."""
    t, low, high, at_low, at_high = 1.0, 0.0, math.inf, h0, 0.0
    for _ in range(40):
        h = _slope(t, x0, reduced, along, lower, upper, s0, y0, y, step, row_lower, row_upper, sigma, rho)
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


@njit(cache=True, nogil=True)
def _advance(
    start: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    row_lower: np.ndarray,
    row_upper: np.ndarray,
    x0: np.ndarray,
    s0: np.ndarray,
    y0: np.ndarray,
    y: np.ndarray,
    reduced: np.ndarray,
    slope: np.ndarray,
    step: np.ndarray,
    sigma: float,
    rho: float,
) -> bool:
    """y and reduced after as much of the step as D gains by; False where it does not climb."""
    h0 = 0.0
    for i in range(len(y)):
        h0 += slope[i] * step[i]
    if not h0 > 0.0:
        return False
    along = np.empty(len(reduced))
    transposed(start, start[1:], row, value, step, along)
    t = _root(h0, x0, reduced, along, lower, upper, s0, y0, y, step, row_lower, row_upper, sigma, rho)
    for i in range(len(y)):
        y[i] += t * step[i]
    for j in range(len(reduced)):
        reduced[j] -= t * along[j]
    return True


@njit(cache=True, nogil=True)
def _ascend(
    start: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    cost: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    row_lower: np.ndarray,
    row_upper: np.ndarray,
    x0: np.ndarray,
    s0: np.ndarray,
    y0: np.ndarray,
    x: np.ndarray,
    s: np.ndarray,
    y: np.ndarray,
    reduced: np.ndarray,
    sigma: float,
    rho: float,
    side_norm: float,
    cost_norm: float,
    outside: float,
    floor: float,
    newton_steps: int,
    work: float,
    rule: Elimination,
    how: int,
    most: int,
    is_free: np.ndarray,
    row_free: np.ndarray,
    slope: np.ndarray,
    step: np.ndarray,
    given: bool,
) -> tuple[int, int, int, float, float]:
    """Newton steps on D until its residual is SHARE of what the outer step moves, or `floor`.

    Updates x, s, y and reduced. Returns (why it ended, Newton steps, iterations within them, what x moves, what y
    moves), the last two in the units of the termination test: as residuals, or as the gap they leave if that is
    more. most: of conjugate gradients. SYSTEM: the caller solves that of is_free, row_free and slope, and comes
    back with the `step` given.
    """
    rows, columns = len(row_lower), len(cost)
    activities = np.empty(rows)
    scratch = np.empty((4, rows))
    free = np.empty(columns, np.int64)
    steps, iterations, climbs = 0, 0, True
    if given:
        climbs = _advance(
            start, row, value, lower, upper, row_lower, row_upper, x0, s0, y0, y, reduced, slope, step, sigma, rho
        )
        steps, iterations = int(climbs), 1
    while True:
        count, moved, objective, open_gap = 0, 0.0, outside, 0.0
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
                free_entries += start[j + 1] - start[j]
                side = lower[j] if reduced[j] > 0.0 else upper[j]
                open_gap += abs(reduced[j]) * abs(at if math.isinf(side) else at - side)
            moved += (x[j] - x0[j]) ** 2
            objective += cost[j] * x[j]
        activity(start, start[1:], row, value, x, activities)
        left, left_gap, held, held_gap = 0.0, 0.0, 0.0, 0.0
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
            left_gap += y[i] * slope[i]
            held += pull**2
            held_gap += y[i] * pull
        unit = 1.0 + abs(objective)
        primal_move = max(math.sqrt(moved) / sigma / cost_norm, open_gap / unit)
        dual_move = max(math.sqrt(held) / side_norm, abs(held_gap) / unit)
        rest = max(math.sqrt(left) / side_norm, abs(left_gap) / unit)
        if rest <= max(floor, SHARE * max(primal_move, dual_move)) or left == 0.0:
            return DONE, steps, iterations, primal_move, dual_move
        if steps >= newton_steps or not climbs:
            return DONE, steps, iterations, primal_move, dual_move
        if work <= 0.0:
            return LONG, steps, iterations, primal_move, dual_move
        if how == FACTORISED:
            return SYSTEM, steps, iterations, primal_move, dual_move
        if how == ELIMINATED:
            eliminate(start, row, value, rule, is_free, row_free, sigma, rho, slope, step)
            tried, took = 1, 4.0 * free_entries + rule.dense**3
        else:
            tried = conjugate_gradients(
                start, row, value, free[:count], row_free, sigma, rho, slope, step, CG_TOLERANCE, most, scratch
            )
            took = tried * (2.0 * free_entries + 6 * rows)
            if how == IMPATIENT and tried >= most:
                return SYSTEM, steps, iterations + tried, primal_move, dual_move
        climbs = _advance(
            start, row, value, lower, upper, row_lower, row_upper, x0, s0, y0, y, reduced, slope, step, sigma, rho
        )
        if not climbs:
            return DONE, steps, iterations, primal_move, dual_move
        steps += 1
        iterations += tried
        work -= took + 3 * len(row) + 10 * (columns + rows)


@njit(cache=True, nogil=True)
def _residuals(
    start: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    cost: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    row_lower: np.ndarray,
    row_upper: np.ndarray,
    row_scale: np.ndarray,
    column_scale: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    reduced: np.ndarray,
) -> tuple[float, float, float, float, float]:
    """(|primal residual|, |dual residual|, objective, dual objective, what both are worth); lengths unscaled."""
    primal, dual, objective, bound, worth = 0.0, 0.0, 0.0, 0.0, 0.0
    activities = np.empty(len(row_lower))
    activity(start, start[1:], row, value, x, activities)
    for i in range(len(row_lower)):
        off = activities[i] - min(max(activities[i], row_lower[i]), row_upper[i])
        primal += (off / row_scale[i]) ** 2
        worth += abs(y[i] * off)
        side = row_lower[i] if y[i] > 0.0 else row_upper[i]
        if math.isinf(side):
            dual += (y[i] * row_scale[i]) ** 2
            worth += abs(y[i] * activities[i])
        else:
            bound += y[i] * side
    for j in range(len(cost)):
        objective += cost[j] * x[j]
        side = lower[j] if reduced[j] > 0.0 else upper[j]
        if math.isinf(side):
            dual += (reduced[j] / column_scale[j]) ** 2
            worth += abs(reduced[j] * x[j])
        else:
            bound += reduced[j] * side
    return math.sqrt(primal), math.sqrt(dual), objective, bound, worth


class Proximal:
    """Outer steps on one scaled program; its x and y are updated in place."""

    def __init__(self, program: Scaled, steps: Steps) -> None:
        self.program, self.steps = program, steps
        self.iterations = 0  # conjugate gradients, or one for a system that is solved directly
        self.reduced = program.cost.copy()
        out = np.empty_like(program.cost)
        transposed(program.start, program.start[1:], program.row, program.value, program.y, out)
        self.reduced -= out
        np.clip(program.x, program.lower, program.upper, out=program.x)
        rows = np.empty(len(program.row_lower))
        activity(program.start, program.start[1:], program.row, program.value, program.x, rows)
        self.s = np.clip(rows, program.row_lower, program.row_upper)
        self.x0, self.y0 = program.x.copy(), program.y.copy()
        self.floor = math.inf
        self.rule = elimination(program.start, program.row, len(program.y))
        many = IMPATIENT if steps.factorises else BY_GRADIENTS
        self.how = ELIMINATED if self.rule.dense <= FEW else many
        self.gradient = 2.0 * len(program.row) + 6 * len(program.y)  # work of one, over all columns
        self.factorization: Factorization | None = None
        self.is_free, self.row_free = np.empty(len(program.cost), np.bool_), np.empty(len(program.y), np.bool_)
        self.slope, self.newton_step = np.empty(len(program.y)), np.empty(len(program.y))

    def residuals(self) -> Residuals:
        p = self.program
        primal, dual, objective, bound, worth = _residuals(
            p.start,
            p.row,
            p.value,
            p.cost,
            p.lower,
            p.upper,
            p.row_lower,
            p.row_upper,
            p.row_scale,
            p.column_scale,
            p.x,
            p.y,
            self.reduced,
        )
        objective, bound = objective + p.outside, bound + p.outside
        gap = max(abs(objective - bound), worth) / (1.0 + max(abs(objective), abs(bound)))
        return Residuals(primal / p.side_norm, dual / p.cost_norm, gap, objective, bound)

    def step(self, tolerance: float, deadline: float) -> bool:
        """One outer step; False where the deadline (of time.perf_counter) broke it off."""
        p, steps = self.program, self.steps
        self.floor = min(self.floor, 0.1 * tolerance)
        self.x0[:], self.y0[:] = p.x, p.y
        s0 = self.s.copy()
        newton, given = 0, False
        while True:
            why, more, iterations, primal_move, dual_move = _ascend(
                p.start,
                p.row,
                p.value,
                p.cost,
                p.lower,
                p.upper,
                p.row_lower,
                p.row_upper,
                self.x0,
                s0,
                self.y0,
                p.x,
                self.s,
                p.y,
                self.reduced,
                steps.sigma,
                steps.rho,
                p.side_norm,
                p.cost_norm,
                p.outside,
                self.floor,
                NEWTON_STEPS - newton,
                WORK,
                self.rule,
                self.how,
                self._most_gradients(),
                self.is_free,
                self.row_free,
                self.slope,
                self.newton_step,
                given,
            )
            newton += more
            self.iterations += iterations
            if given and more == 0:
                self.how = BY_GRADIENTS  # the factors' step did not climb
            elif why == DONE or newton >= NEWTON_STEPS:
                break
            if time.perf_counter() > deadline:
                return False
            given = why == SYSTEM and self._factorised()
        if newton == 0:
            self.floor *= 0.1  # the step was within the floor, yet the program is not solved
        if newton >= HARD:
            steps.rho, steps.sigma = min(4.0 * steps.rho, steps.sigma), steps.sigma / 1.5
        else:
            faster = 4.0 if newton <= 4 else 1.5
            if primal_move > 0.5 * dual_move:
                steps.sigma = min(faster * steps.sigma, steps.most_sigma)
            if dual_move > 0.5 * primal_move:
                steps.rho = max(steps.rho / faster, steps.least_rho)
        return True

    def _most_gradients(self) -> int:
        if self.how == IMPATIENT:
            return min(max(CG_PATIENCE, int(CG_CHEAP / self.gradient)), CG_MOST)
        return max(100, min(2 * len(self.program.y), CG_MOST))

    def _factorised(self) -> bool:
        """Whether a factorization gave the step; where it cannot, or costs too much, gradients go on for good."""
        p = self.program
        if self.factorization is None:
            self.factorization = Factorization(p.start, p.row, p.value, len(p.y))
        steps = self.steps
        step = self.factorization.solve(self.is_free, self.row_free, steps.sigma, steps.rho, self.slope)
        steps.factorises &= self.factorization.work <= DEARER * CG_MOST * self.gradient
        self.how = FACTORISED if step is not None and steps.factorises else BY_GRADIENTS
        if step is not None:
            self.newton_step[:] = step
        return step is not None
