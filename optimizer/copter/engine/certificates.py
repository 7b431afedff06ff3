"""Proofs: lower bounds of the minimum, that nothing is feasible, and that the objective is unbounded."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...compiled import kernel
from .kernels import SparseColumns
from .storage import Storage

MOST_TIGHTENING = 3  # rounds; more rounds would imply bounds that are worth little
RAY_TOLERANCE = 1e-7  # relative to a ray's own size
LEAST = 1e-10  # least contradiction of combined rows that proves something, for a largest weight of 1
OF_TERMS = 1e-13  # the same relative to their terms, as sums of the caller may be off by that much
EPSILON = 2.3e-16  # more than twice the relative rounding error of one product or sum
HINT = 1e-2  # part of its value or size that a ray may miss to be worth a closer look
DUST = (1e-5, 0.0)  # entries below this part of a ray's largest one are tried as 0


@kernel
def _tighten(
    sparse: SparseColumns,
    row_lower: np.ndarray,
    row_upper: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
) -> bool:
    """Give columns without a bound the one that a row implies by the least and most of its other columns.

    Bounds are widened by the possible rounding of the sums from which they come. Return whether any was found.
    """
    start, end, row, value = sparse
    rows = len(row_lower)
    least, most = np.zeros(rows), np.zeros(rows)
    no_least, no_most = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    terms, size = np.zeros(rows, np.int64), np.zeros(rows)
    for j in range(len(lower)):
        for k in range(start[j], end[j]):
            i, a = row[k], value[k]
            low, high = (a * lower[j], a * upper[j]) if a > 0.0 else (a * upper[j], a * lower[j])
            if low == -math.inf:
                no_least[i] += 1
            else:
                least[i] += low
            if high == math.inf:
                no_most[i] += 1
            else:
                most[i] += high
            for side in (low, high):
                if side != 0.0 and not math.isinf(side):
                    terms[i] += 1
                    size[i] += abs(side)
    changed = False
    for j in range(len(lower)):
        old_low, old_high = lower[j], upper[j]
        if old_low > -math.inf and old_high < math.inf:
            continue
        for k in range(start[j], end[j]):
            i, a = row[k], value[k]
            low, high = (a * old_low, a * old_high) if a > 0.0 else (a * old_high, a * old_low)
            # a x_j lies between `bottom` and `top`, wherever the other columns of the row are.
            top, bottom, off = math.inf, -math.inf, EPSILON * (3.0 + terms[i])
            if no_least[i] == (1 if low == -math.inf else 0):
                top = row_upper[i] - (least[i] if low == -math.inf else least[i] - low)
                top += off * (size[i] + abs(row_upper[i]))
            if no_most[i] == (1 if high == math.inf else 0):
                bottom = row_lower[i] - (most[i] if high == math.inf else most[i] - high)
                bottom -= off * (size[i] + abs(row_lower[i]))
            if a < 0.0:
                top, bottom = bottom, top
            # A given bound stays. A bound beyond the other side is not used: the rows refute that case themselves.
            if old_high == math.inf and old_low <= top / a < upper[j]:
                upper[j] = top / a
                changed = True
            if old_low == -math.inf and old_high >= bottom / a > lower[j]:
                lower[j] = bottom / a
                changed = True
    return changed


@kernel
def _added(total: float, lost: float, term: float) -> tuple[float, float]:
    """Return the sum, and what rounding has taken from it so far (Neumaier, ZAMM 54, 1974)."""
    found = total + term
    return found, lost + ((total - found) + term if abs(total) >= abs(term) else (term - found) + total)


class _Dual(NamedTuple):
    """A dual objective.

    wrong: the sum of reduced costs that point to an infinite bound.
    worst: the largest of these, relative to its size if all prices were as large as the largest.
    size: the sum of the sizes of its terms.
    rounding: by how much it may be off.
    """

    value: float
    wrong: float
    worst: float
    size: float
    rounding: float


@kernel
def _dual_value(
    sparse: SparseColumns,
    cost: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    row_lower: np.ndarray,
    row_upper: np.ndarray,
    prices: np.ndarray,
) -> _Dual:
    """Return the dual objective at prices. A price that asks for a side that a row does not have counts as 0."""
    start, end, row, value = sparse
    total, lost, rounding, of_terms = 0.0, 0.0, 0.0, 0.0
    wrong, worst, largest = 0.0, 0.0, 0.0
    y = np.zeros(len(prices))
    for i in range(len(y)):
        side = row_lower[i] if prices[i] > 0.0 else row_upper[i]
        if not math.isinf(side):
            y[i] = prices[i]
            total, lost = _added(total, lost, y[i] * side)
            of_terms += abs(y[i] * side)
            largest = max(largest, abs(y[i]))
    for j in range(len(cost)):
        reduced, size, terms = cost[j], abs(cost[j]), abs(cost[j])
        for k in range(start[j], end[j]):
            reduced -= value[k] * y[row[k]]
            size += abs(value[k]) * largest
            terms += abs(value[k] * y[row[k]])
        off = EPSILON * (2.0 + end[j] - start[j]) * terms
        side = lower[j] if reduced > 0.0 else upper[j]
        if abs(reduced) > off:
            if math.isinf(side):
                wrong += abs(reduced)
                worst = max(worst, abs(reduced) / size)
                continue
            farthest = abs(side)
        else:  # it may have either sign or be 0, and only finite bounds count
            low, high = abs(lower[j]), abs(upper[j])
            farthest = max(low if low < math.inf else 0.0, high if high < math.inf else 0.0)
            side = 0.0 if math.isinf(side) else side
        total, lost = _added(total, lost, reduced * side)
        of_terms += abs(reduced * side)
        rounding += off * farthest
    return _Dual(total + lost, wrong, worst, of_terms, rounding + 2.0 * EPSILON * of_terms)


class Certificates:
    """Proofs for the program as it is now. Bounds that rows imply are found on first use."""

    def __init__(self, storage: Storage) -> None:
        top, rows = storage.columns.top, storage.rows.top
        self.storage, self.sparse = storage, storage.sparse
        self.cost, self.rows = storage.cost[:top], rows
        self.lower, self.upper = storage.lower[:top], storage.upper[:top]
        self.row_lower, self.row_upper = storage.row_lower[:rows], storage.row_upper[:rows]
        self._rounds = 0

    def bound(self, y: np.ndarray) -> float:
        """Return a lower bound of the minimum by any y (rows,); -inf if a column needs a bound that it lacks."""
        self._tighten()
        found = self._value(self.cost, y)
        while found.wrong and self._tighten():
            found = self._value(self.cost, y)
        return -math.inf if found.wrong else found.value

    def infeasible(self, ray: np.ndarray) -> bool:
        """Return whether `ray` (rows,) proves by Farkas' lemma that nothing is feasible."""
        size = float(np.abs(ray).max(initial=0.0))
        if not (size > 0.0 and math.isfinite(size)):
            return False
        return any(self._refutes(np.where(np.abs(ray) < dust * size, 0.0, ray / size)) for dust in DUST)

    def nearly_infeasible(self, ray: np.ndarray) -> bool:
        """Return whether `ray` (rows,) nearly shows that nothing is feasible, so that a closer look pays."""
        size = float(np.abs(ray).max(initial=0.0))
        if not (size > 0.0 and math.isfinite(size)):
            return False
        found = self._value(np.zeros(len(self.cost)), ray / size)
        return found.value > 1e-9 and found.wrong <= HINT * found.value

    def _refutes(self, ray: np.ndarray) -> bool:
        zero = np.zeros(len(self.cost))
        found = self._value(zero, ray)
        while found.value > 0.0 and found.wrong and self._tighten():
            found = self._value(zero, ray)
        surely = found.value > max(LEAST, found.rounding, OF_TERMS * found.size)
        return surely and found.worst <= RAY_TOLERANCE and found.wrong <= RAY_TOLERANCE * found.value

    def improving(self, ray: np.ndarray) -> bool:
        """Return whether the objective falls for ever along `ray` (columns,) without breaking a bound or row."""
        return self._improves(ray, RAY_TOLERANCE)

    def nearly_improving(self, ray: np.ndarray) -> bool:
        """Return whether it nearly does, so that a more exact `ray` is worth looking for."""
        return self._improves(ray, HINT)

    def _improves(self, ray: np.ndarray, within: float) -> bool:
        size = np.abs(ray) / self.storage.column_scale[: len(ray)]  # independent of the columns' units
        largest = float(size.max(initial=0.0))
        if not (largest > 0.0 and math.isfinite(largest)):
            return False
        ray, size = ray / largest, size / largest
        ray = np.where(np.isfinite(self.upper), np.minimum(ray, 0.0), ray)
        ray = np.where(np.isfinite(self.lower), np.maximum(ray, 0.0), ray)
        return any(self._falls(np.where(size < max(dust, 1e-9), 0.0, ray), within) for dust in DUST)

    def _falls(self, ray: np.ndarray, within: float) -> bool:
        start, end, rows, values = self.sparse
        falls = -float(self.cost @ ray)
        counts = end - start
        column = np.repeat(np.arange(len(ray)), counts)
        held = np.repeat(start - (np.cumsum(counts) - counts), counts) + np.arange(len(column))
        along = values[held] * ray[column]
        moved = np.bincount(rows[held], along, minlength=self.rows)
        size = np.bincount(rows[held], np.abs(along), minlength=self.rows)
        slack = within * size
        stays = ((moved <= slack) | np.isinf(self.row_upper)) & ((moved >= -slack) | np.isinf(self.row_lower))
        return falls > within * float(np.abs(self.cost) @ np.abs(ray)) > 0.0 and bool(stays.all())

    def _value(self, cost: np.ndarray, y: np.ndarray) -> _Dual:
        return _dual_value(self.sparse, cost, self.lower, self.upper, self.row_lower, self.row_upper, y)

    def _tighten(self) -> bool:
        """Do one more round of implied bounds. Return False if it found none, or there were enough rounds."""
        if self._rounds == MOST_TIGHTENING:
            return False
        if self._rounds == 0:
            self.lower, self.upper = self.lower.copy(), self.upper.copy()
        found = _tighten(self.sparse, self.row_lower, self.row_upper, self.lower, self.upper)
        self._rounds = self._rounds + 1 if found else MOST_TIGHTENING
        return found
