"""Finds the fraction of time that each job is to spend on each GPU type (Gavel, OSDI'20, section 4).

A share x[job, type] >= 0 is a fraction of time with all of the job's GPUs. The shares of a job sum to at most 1.
For each type, shares times GPUs sum to at most its capacity. As a rule many sets of shares are optimal. The
interior-point method without crossover ends near their centre, where all jobs get a part of what is left over. A
vertex gives that to few.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .highs import Highs, Method
from .linear_program import LinearProgram, Status

Floats = NDArray[np.float64]
PRICED = 1e-3  # prices below this part of the highest count as 0
ROOM = 1e-7  # margin for rounding between two programs


class NoOptimum(RuntimeError):
    """HiGHS found no optimum."""


def max_sum_shares(values: Floats, gpus: Floats, capacity: Floats) -> Floats:
    """Return (jobs, types) shares that maximise the sum of values times shares.

    Args:
        values: (jobs, types), 0 where a job cannot run. Such a share is 0.
        gpus: (jobs,) GPUs that each job runs on.
        capacity: (types,) GPUs.

    Raises:
        ValueError: for shapes that do not agree, and entries that are negative or not finite.
        NoOptimum: if HiGHS finds none.
    """
    _check(values, gpus, capacity)
    return _solve(values, gpus, capacity, None)[0]


def max_min_shares(values: Floats, gpus: Floats, capacity: Floats) -> Floats:
    """Return (jobs, types) shares that maximise the least value times shares over all jobs with a value.

    Raises:
        ValueError, NoOptimum: as `max_sum_shares`.
    """
    _check(values, gpus, capacity)
    return _solve(values, gpus, capacity, np.full(len(values), np.nan))[0]


def water_filling_shares(values: Floats, gpus: Floats, capacity: Floats) -> Floats:
    """Return (jobs, types) shares whose least value times shares is largest, then the next least, and so on.

    This is Gavel's water filling (section 4.3). All jobs rise together. Those that cannot rise further stay at
    their level, and the others go on. Gavel finds the jobs that are stuck with an integer program. Here they are
    the jobs whose limits have a price: no optimum has them any higher. The interior-point method ends where all of
    them have a price.

    Raises:
        ValueError: as `max_sum_shares`.
        NoOptimum: if HiGHS finds no optimum for the first least value.
    """
    _check(values, gpus, capacity)
    able = (values > 0).any(axis=1)
    level = np.where(able, np.nan, 0.0)
    shares = np.zeros(values.shape)
    while np.isnan(level).any():
        try:
            shares, price = _solve(values, gpus, capacity, level)
        except NoOptimum:
            # If values lie 1e5 apart, rounding may exceed the margin below. Then no job rises further.
            if np.isnan(level[able]).all():
                raise
            return shares
        rises = np.isnan(level)
        full = rises & (price >= PRICED * price[rises].max())
        # The level is a little below what was reached, so that the next program has a solution after rounding.
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
    """Return shares, and (jobs,) the price of keeping each job's value at the least value or at its level.

    Args:
        level: (jobs,) least values; NaN for jobs whose least value is maximised. None maximises the sum of values.
    """
    shares, price = np.zeros(values.shape), np.zeros(len(values))
    row, column = np.nonzero(values > 0)
    count = len(row)
    if not count:
        return shares, price
    worth = values[row, column]
    jobs, place = np.unique(row, return_inverse=True)
    every, job_count = np.arange(count), len(jobs)
    # The first rows are the jobs' shares, the next ones the GPUs of each type.
    blocks = [(place, every, np.ones(count)), (job_count + column, every, gpus[row].astype(float))]
    lower = np.full(job_count + len(capacity), -np.inf)
    upper = np.concatenate([np.ones(job_count), capacity])
    cost, columns = -worth, count
    if level is not None:
        # The last column is the least value. Each job's value is at least that, or its level.
        floor = level[jobs] / worth.mean()
        rises, begin = np.isnan(floor), len(lower)
        least = (begin + np.arange(job_count), np.full(job_count, count), -1.0 * rises)
        blocks += [(begin + place, every, worth / worth.mean()), least]
        lower = np.concatenate([lower, np.where(rises, 0.0, floor)])
        upper = np.concatenate([upper, np.full(job_count, np.inf)])
        cost, columns = np.append(np.zeros(count), -1.0), count + 1
    at_row, at_column, value = (np.concatenate([block[k] for block in blocks]) for k in range(3))
    matrix = csr_array((value, (at_row, at_column)), shape=(len(lower), columns))
    scaled = cost / np.abs(cost).max()
    x, dual = _centre(LinearProgram(scaled, matrix, lower, upper, np.zeros(columns), np.full(columns, np.inf)))
    shares[row, column] = x[:count].clip(0.0, 1.0)
    price[jobs] = np.abs(dual[-job_count:])
    return shares, price


def _centre(program: LinearProgram) -> tuple[Floats, Floats]:
    """Return an optimum near the centre of all optima, and the rows' duals.

    Raises:
        NoOptimum: if HiGHS finds none.
    """
    # Presolve would fix what it can at a bound. If the interior-point method ends short of an optimum, the simplex
    # method finds one, though at a vertex.
    for solver in (Highs(Method.INTERIOR_POINT, crossover=False, presolve=False), Highs(presolve=False)):
        found = solver.solve(program)
        if found.status is Status.OPTIMAL and found.x is not None and found.row_dual is not None:
            return found.x, found.row_dual
    raise NoOptimum(f"shares: HiGHS ends as {found.status}, without an optimum")
