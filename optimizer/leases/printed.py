"""The printed program of UniSched (equations 4 to 14), repaired, for HiGHS: the peer and judge of the columns.

z: an option (deadline and shape of a job) is taken. x: leases of a job in a shape, by slot.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..highs import Highs, Method
from ..linear_program import LinearProgram, LinearSolution, Status
from .problem import NOTHING, Floats, Ints, LeasePlan, LeaseProblem, value_of


def printed_program(problem: LeaseProblem) -> LinearProgram:
    """Return the program: options first, then (job and shape, slot)."""
    options, slots = len(problem.row), len(problem.length)
    _, lead, group = np.unique(problem.shape, return_index=True, return_inverse=True)
    groups = len(lead)
    most = np.zeros((groups, slots), np.int64)
    np.maximum.at(most, group, problem.most)
    x = options + np.arange(groups * slots).reshape(groups, slots)
    limits = problem.room.shape[0]
    entries: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    lower: list[Floats] = []
    upper: list[Floats] = []
    at = 0

    def add(row: np.ndarray, column: np.ndarray, value: np.ndarray) -> None:
        entries.append((at + row, column, value))

    def close(low: Floats, high: Floats) -> None:
        nonlocal at
        lower.append(low)
        upper.append(high)
        at += len(low)

    every = np.arange(options)
    add(problem.row, every, np.ones(options))  # (6), (13) and D2: at most one deadline and shape
    close(np.full(problem.rows, -np.inf), np.ones(problem.rows))
    # (7) and (12): leases before the deadline are enough for it and all that are sooner.
    option, slot = np.nonzero(problem.most)
    add(option, x[group[option], slot], np.ones(len(option)))
    pairs = _sooner(problem, group)
    add(pairs[0], pairs[1], -problem.leases[pairs[0]].astype(float))
    close(np.zeros(options), np.full(options, np.inf))
    # Nobody takes more than that.
    place = np.arange(groups * slots)
    add(place // slots, x.ravel(), np.ones(groups * slots))
    add(group, every, -problem.leases.astype(float))
    close(np.full(groups, -np.inf), np.zeros(groups))
    # A lease goes with an option that may still have it.
    add(place, x.ravel(), np.ones(groups * slots))
    add(group[option] * slots + slot, option, -problem.most[option, slot].astype(float))
    close(np.full(groups * slots, -np.inf), np.zeros(groups * slots))
    # (11) and (14), by slot.
    usage = problem.usage[lead]
    g, limit = np.nonzero(usage)
    for k in range(slots):
        add(limit * slots + k, x[g, k], usage[g, limit])
    close(np.full(limits * slots, -np.inf), problem.room.ravel())
    row, column, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    width = options + groups * slots
    matrix = sparse.csr_array((value, (row, column)), shape=(at, width))
    cost = np.zeros(width)
    cost[:options] = -problem.worth
    cost[x[:, 0]] = -problem.first[lead]
    top = np.concatenate([problem.possible.astype(float), most.ravel().astype(float)])
    return LinearProgram(
        cost, matrix, np.concatenate(lower), np.concatenate(upper), np.zeros(width), top, np.ones(width, bool)
    )


def _sooner(problem: LeaseProblem, group: Ints) -> tuple[Ints, Ints]:
    """Return pairs of options of one job and shape of which the second must have ended no later."""
    firsts: list[int] = []
    seconds: list[int] = []
    members: dict[int, list[int]] = {}
    for option, number in enumerate(group.tolist()):
        members.setdefault(number, []).append(option)
    within = problem.within
    for found in members.values():
        for one in found:
            for other in found:
                if within[other] <= within[one]:
                    firsts.append(one)
                    seconds.append(other)
    return np.array(firsts, np.int64), np.array(seconds, np.int64)


def solved(
    problem: LeaseProblem, time_limit_s: float, gap: float = 1e-9, start: LeasePlan | None = None
) -> tuple[LeasePlan | None, LinearSolution]:
    """Return HiGHS' plan and what it says of it; None: it found none in time."""
    program = printed_program(problem)
    point = None if start is None else _point(problem, start, len(program.cost))
    solver = Highs(Method.EXACT, time_limit_s=max(time_limit_s, 1e-3), gap=gap, absolute_gap=1e-9)
    said = solver.solve(program, point)
    if said.x is None or said.status is Status.INFEASIBLE:
        return None, said
    options, slots = len(problem.row), len(problem.length)
    group = np.unique(problem.shape, return_inverse=True)[1]
    x = np.round(said.x[options:]).astype(np.int64).reshape(-1, slots)
    option, taken = np.full(problem.rows, NOTHING), np.zeros((problem.rows, slots), np.int64)
    for at in np.flatnonzero(said.x[:options] > 0.5).tolist():
        row = int(problem.row[at])
        option[row], taken[row] = at, x[group[at]]
    value = value_of(problem, option, taken)
    return LeasePlan(option, taken, value, max(-said.bound, value), np.zeros_like(problem.capacity)), said


def _point(problem: LeaseProblem, plan: LeasePlan, width: int) -> Floats:
    """Return a plan as a point of the program."""
    options, slots = len(problem.row), len(problem.length)
    group = np.unique(problem.shape, return_inverse=True)[1]
    found = np.zeros(width)
    for row in np.flatnonzero(plan.option >= 0).tolist():
        at = int(plan.option[row])
        found[at] = 1.0
        begin = options + int(group[at]) * slots
        found[begin : begin + slots] = plan.taken[row]
    return found
