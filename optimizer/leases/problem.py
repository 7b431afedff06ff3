"""The program of a round of leases as plain arrays, and its plans."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NOTHING = -1


@dataclass(frozen=True, eq=False)
class LeaseProblem:
    """Each row (job) takes at most one option. An option takes `leases` leases before `within`. Cells are limited.

    row: (options,) the job of each option, in ascending order.
    shape: (options,) a number per job and shape; options of one job that share it differ in their deadline only.
    worth: (options,) what it brings.
    leases: (options,) leases that it takes, at most one at a time.
    within: (options,) it takes them before this lease, counted from 0.
    usage: (options, limits) what it takes of each limit while it has a lease.
    first: (options,) what it brings more for the lease that begins now.
    capacity: (limits, slots) what there is of each limit in each slot.
    length: (slots,) leases of each slot. They lie one after another from now on.
    rows: the number of jobs.
    """

    row: Ints
    shape: Ints
    worth: Floats
    leases: Ints
    within: Ints
    usage: Floats
    first: Floats
    capacity: Floats
    length: Ints
    rows: int

    def __post_init__(self) -> None:
        if (np.diff(self.row) < 0).any():
            raise ValueError("row: the options of a job must follow each other, in the order of jobs")
        if (self.leases < 1).any():
            raise ValueError("leases: an option takes at least one")

    @cached_property
    def begins(self) -> Ints:
        """(slots,) the first lease of each slot."""
        return np.concatenate([[0], np.cumsum(self.length)[:-1]]).astype(np.int64)

    @cached_property
    def most(self) -> Ints:
        """(options, slots) leases that an option can have in each slot before it must have ended."""
        found: Ints = np.clip(self.within[:, None] - self.begins[None, :], 0, self.length[None, :])
        return found

    @cached_property
    def room(self) -> Floats:
        """(limits, slots) what there is in each slot, times its leases."""
        found: Floats = self.capacity * self.length[None, :]
        return found

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """(options,) whether an option could be had alone."""
        enough: NDArray[np.bool_] = self.most.sum(axis=1) >= self.leases
        fits = (self.usage[:, :, None] <= self.capacity[None, :, :] + 1e-9).all(axis=1)
        return enough & ((self.most * fits).sum(axis=1) >= self.leases)

    def only(self, keep: NDArray[np.bool_]) -> LeaseProblem:
        """Return the problem with the options for which a mask (options,) holds."""
        return LeaseProblem(
            self.row[keep], self.shape[keep], self.worth[keep], self.leases[keep], self.within[keep],
            self.usage[keep], self.first[keep], self.capacity, self.length, self.rows,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class LeasePlan:
    """What rows take, and what is proven of it.

    option: (rows,) the option of each job, or NOTHING.
    taken: (rows, slots) its leases in each slot.
    value: what all of it brings. bound: nothing brings more.
    prices: (limits, slots) what a lease of one more of each limit would bring.
    """

    option: Ints
    taken: Ints
    value: float
    bound: float
    prices: Floats

    @property
    def gap(self) -> float:
        """(bound - value) / |value|, at least 0."""
        return max(self.bound - self.value, 0.0) / max(abs(self.value), 1e-12)


def value_of(problem: LeaseProblem, option: Ints, taken: Ints) -> float:
    """Return what options with these leases bring."""
    chosen = option >= 0
    at = option[chosen]
    return float(problem.worth[at].sum() + (problem.first[at] * (taken[chosen, 0] > 0)).sum())


def check(problem: LeaseProblem, option: Ints, taken: Ints) -> str:
    """Return in a sentence what is wrong with a plan; "": nothing is."""
    for row in range(problem.rows):
        at = int(option[row])
        if at == NOTHING:
            if taken[row].any():
                return f"row {row}: has leases and no option"
            continue
        if problem.row[at] != row:
            return f"row {row}: takes an option of row {problem.row[at]}"
        if (
            taken[row].sum() != problem.leases[at]
            or (taken[row] > problem.most[at]).any()
            or (taken[row] < 0).any()
        ):
            return f"row {row}: does not take {problem.leases[at]} leases before lease {problem.within[at]}"
    chosen = np.flatnonzero(option >= 0)
    used = problem.usage[option[chosen]].T @ taken[chosen]
    over = used > problem.room + 1e-6
    if over.any():
        limit, slot = (int(one[0]) for one in np.nonzero(over))
        return f"limit {limit}, slot {slot}: {used[limit, slot]:g} is taken of {problem.room[limit, slot]:g}"
    return ""


def growing(leases: int) -> Ints:
    """Return (slots,) slot lengths that cover so many leases and grow with distance: 1, 1, 1, 1, 2, 2, 4, …."""
    found, covered, length = [1, 1, 1, 1], 4, 2
    while covered < leases:
        found += [length, length]
        covered += 2 * length
        length *= 2
    return np.array(found, np.int64)
