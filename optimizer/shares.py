"""Shares of time: which fraction of it each job is to spend on each GPU type (Gavel, OSDI'20, section 4).

A share x[job, type] >= 0 is a fraction of time with all of the job's GPUs. The shares of a job sum to 1 at most,
and shares times GPUs of a type to its capacity. As a rule many sets of shares are optimal. The interior-point
method without crossover ends near their centre, which spreads among the jobs what is left over; a vertex gives it
to few.
"""

from __future__ import annotations

from collections.abc import Sequence

import highspy
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PRICED = 1e-3  # of the highest price: below it is what the method leaves of a price of 0
ROOM = 1e-7


class NoOptimum(RuntimeError):
    """HiGHS found none."""


def max_sum_shares(values: Floats, gpus: Floats, capacity: Floats) -> Floats:
    """(jobs, types) shares that maximise the sum of values times shares.

    Args:
        values: (jobs, types), 0 where a job cannot run; such a share is 0.
        gpus: (jobs,) GPUs a job runs on.
        capacity: (types,) GPUs.

    Raises:
        ValueError: for shapes that do not agree, and entries that are negative or not finite.
        NoOptimum: where HiGHS finds none.
    """
    _check(values, gpus, capacity)
    return _solve(values, gpus, capacity, None)[0]


def max_min_shares(values: Floats, gpus: Floats, capacity: Floats) -> Floats:
    """(jobs, types) shares that maximise the least value times shares of any job that has a value.

    Raises:
        ValueError, NoOptimum: as `max_sum_shares` does.
    """
    _check(values, gpus, capacity)
    return _solve(values, gpus, capacity, np.full(len(values), np.nan))[0]


def water_filling_shares(values: Floats, gpus: Floats, capacity: Floats) -> Floats:
    """(jobs, types) shares whose least value times shares is as large as can be, then the next least, and so on.

    Gavel's water filling (section 4.3): all jobs rise together; those that cannot rise further stay at their
    level, and the others go on. Gavel finds the former with an integer program. Here they are those whose limits
    have a price: no optimum has them any higher, and the interior-point method ends where all of them have one.

    Raises:
        ValueError, NoOptimum: as `max_sum_shares` does; the latter of the first least value alone.
    """
    _check(values, gpus, capacity)
    able = (values > 0).any(axis=1)
    level = np.where(able, np.nan, 0.0)
    shares = np.zeros(values.shape)
    while np.isnan(level).any():
        try:
            shares, price = _solve(values, gpus, capacity, level)
        except NoOptimum:
            # Where values lie 1e5 apart the hair below may be less than what HiGHS rounds: nobody rises further.
            if np.isnan(level[able]).all():
                raise
            return shares
        rises = np.isnan(level)
        full = rises & (price >= PRICED * price[rises].max())
        # A hair below what was reached, so that the next program has a solution after rounding.
        level[full] = (values * shares).sum(axis=1)[rises].min() * (1 - ROOM)
    return shares


def _check(values: Floats, gpus: Floats, capacity: Floats) -> None:
    if values.ndim != 2:
        raise ValueError(f"values: has shape {values.shape}, not (jobs, types)")
    jobs, types = values.shape
    for name, array, size in (("gpus", gpus, jobs), ("capacity", capacity, types)):
        if array.shape != (size,):
            raise ValueError(f"{name}: has shape {array.shape}, not ({size},) as values say")
    for name, array in (("values", values), ("gpus", gpus), ("capacity", capacity)):
        if not (np.isfinite(array) & (array >= 0)).all():
            raise ValueError(f"{name}: has entries that are negative or not finite; 0 or more is accepted")


def _solve(values: Floats, gpus: Floats, capacity: Floats, level: Floats | None) -> tuple[Floats, Floats]:
    """Shares, and (jobs,) the price of each job's value being at least the least, or its level.

    `level`: (jobs,) nan: the least of these is to be as large as can be; None: the sum of all is.
    """
    shares, price = np.zeros(values.shape), np.zeros(len(values))
    row, column = np.nonzero(values > 0)
    count = len(row)
    if not count:
        return shares, price
    worth = values[row, column]
    jobs, first = np.unique(row, return_index=True)
    of_job = [np.arange(a, b) for a, b in zip(first, [*first[1:], count], strict=True)]
    of_type = [np.flatnonzero(column == t) for t in range(len(capacity))]
    index = [*of_job, *of_type]
    weight = [np.ones(count)[i] for i in of_job] + [gpus[row[i]].astype(float) for i in of_type]
    lower = np.full(len(index), -highspy.kHighsInf)
    upper = np.concatenate([np.ones(len(jobs)), capacity])
    cost = -worth
    if level is not None:
        # The last column is the least value: each job's value less it, or its level, is at least 0.
        floor = level[jobs] / worth.mean()
        rises = np.isnan(floor)
        index += [np.append(i, count) for i in of_job]
        weight += [np.append(worth[i] / worth.mean(), -1.0 * up) for i, up in zip(of_job, rises, strict=True)]
        lower = np.concatenate([lower, np.where(rises, 0.0, floor)])
        upper = np.concatenate([upper, np.full(len(jobs), highspy.kHighsInf)])
        cost = np.append(np.zeros(count), -1.0)
    solution, dual = _interior(cost, index, weight, lower, upper)
    shares[row, column] = solution[:count].clip(0.0, 1.0)
    price[jobs] = np.abs(dual[-len(jobs) :])
    return shares, price


def _interior(
    cost: Floats, index: Sequence[NDArray[np.intp]], weight: Sequence[Floats], lower: Floats, upper: Floats
) -> tuple[Floats, Floats]:
    """The columns, all at least 0, of least cost within the rows' limits, and the rows' duals.

    Raises:
        NoOptimum: where HiGHS finds none.
    """
    highs = highspy.Highs()
    options: dict[str, bool | int | str] = {
        "output_flag": False,
        "threads": 1,
        "solver": "ipx",
        "run_crossover": "off",
        "presolve": "off",  # it would fix what it can at a bound
    }
    for name, value in options.items():
        highs.setOptionValue(name, value)
    n = len(cost)
    starts = np.concatenate([[0], np.cumsum([len(i) for i in index])]).astype(np.int32)
    highs.passModel(
        n,
        len(index),
        int(starts[-1]),
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        cost / np.abs(cost).max(),
        np.zeros(n),
        np.full(n, highspy.kHighsInf),
        lower,
        upper,
        starts,
        np.concatenate(index).astype(np.int32),
        np.concatenate(weight),
        np.zeros(n, np.int32),
    )
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        # The interior-point method may end short of an optimum; the simplex method does not, at a vertex.
        highs.setOptionValue("solver", "simplex")
        highs.clearSolver()
        highs.run()
        status = highs.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise NoOptimum(f"shares: HiGHS ends with '{highs.modelStatusToString(status)}', without an optimum")
    solution = highs.getSolution()
    return np.asarray(solution.col_value), np.asarray(solution.row_dual)
