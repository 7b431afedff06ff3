"""Which jobs get how many GPUs of which type (Sia's program, COpter section 4.4), by different solvers.

Every solver takes the same `ChoiceProgram`, whose rows are jobs and whose columns are configurations. Only
`structured` works on it as it is; the others read all of it, which is part of what they cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
from numba import njit
from scipy import sparse

from .. import milp
from ..baselines.highs import Highs, HotHighs, LpSolver, Method
from ..baselines.pop import solve_parts
from ..choice import ChoiceProblem, ChoiceProgram, ChoiceSolution
from ..choice.program import Entries
from ..compiled import kernel
from ..continual import ContinualProgram, Row
from ..linear_program import LinearProgram, LinearSolution

_PARTS = 16  # of POP, as in COpter's table 4.1


class AllocationSolver(Protocol):
    """Decides a round; may keep what it likes from the one before."""

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution: ...


@dataclass(frozen=True)
class Structured:
    """Prices, the LP's vertex and a search over what is torn (`optimizer/choice`)."""

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        return program.solve(order, gap, time_limit_s)


@dataclass(frozen=True)
class Reduced:
    """The integer program by HiGHS, of what the LP's reduced costs leave open (`optimizer/milp.py`)."""

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        start_s = time.perf_counter()
        problem = _dense(program.entries(order), program.usage, program.capacity, program.required(order))
        found = milp.solve(problem, time_limit_s, gap)
        return replace(found, seconds=time.perf_counter() - start_s)


def _dense(entries: Entries, usage: np.ndarray, capacity: np.ndarray, required: np.ndarray) -> ChoiceProblem:
    value = np.zeros((len(required), usage.shape[1]))
    allowed = np.zeros(value.shape, bool)
    value[entries.row, entries.column] = entries.gain
    allowed[entries.row, entries.column] = True
    return ChoiceProblem(value, allowed, usage, capacity, required)


def _satisfiable(entries: Entries, required: np.ndarray, usage: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """(rows,) of the jobs that must pick something those that can, all together; earlier ones first."""
    if not required.any():
        return required
    rows = np.flatnonzero(required)
    mine = required[entries.row]
    alone = Entries(np.searchsorted(rows, entries.row[mine]), entries.column[mine], entries.gain[mine])
    _, unmet = milp.meet_required(_dense(alone, usage, capacity, np.ones(len(rows), bool)))
    can = required.copy()
    can[rows[list(unmet)]] = False
    return can


def linear_program(
    entries: Entries, rows: int, usage: np.ndarray, capacity: np.ndarray, required: np.ndarray, *, integer: bool
) -> LinearProgram:
    """Minimise what is not gained: a variable an entry, a row a job and then one a limit.

    required: (rows,) jobs that must pick something.
    """
    count, limits = len(entries.row), len(capacity)
    limit, entry = np.nonzero(usage[:, entries.column])
    row = np.concatenate([entries.row, rows + limit])
    column = np.concatenate([np.arange(count), entry])
    value = np.concatenate([np.ones(count), usage[limit, entries.column[entry]]])
    matrix = sparse.csr_array((value, (row, column)), shape=(rows + limits, count))
    lower = np.concatenate([np.where(required, 1.0, -np.inf), np.full(limits, -np.inf)])
    upper = np.concatenate([np.ones(rows), capacity])
    whole = np.ones(count, bool) if integer else None
    # In the LP the job's row alone limits a variable: a bound of 1 beside it would share the row's dual.
    most = np.full(count, 1.0 if integer else np.inf)
    return LinearProgram(-entries.gain, matrix, lower, upper, np.zeros(count), most, whole)


def largest_weights(
    entries: Entries, weight: np.ndarray, rows: int, usage: np.ndarray, capacity: np.ndarray
) -> np.ndarray:
    """COpter's shim (section 4.4.1): (rows,) columns, -1: none.

    Jobs, those of the largest weight first, pick the configuration of the highest weight in the LP's solution that
    fits what is left.
    """
    heavy = np.flatnonzero(weight > 1e-6)
    heavy = heavy[np.lexsort((heavy, -weight[heavy]))]
    return _fill(entries.row[heavy], entries.column[heavy], rows, usage.T.copy(), capacity)


@njit(cache=True, nogil=True)
def _fill(row: np.ndarray, column: np.ndarray, rows: int, usage: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """What each row picks where the first that fits is taken; usage: (columns, limits)."""
    choice, room = np.full(rows, -1, np.int64), capacity.copy()
    for k in range(len(row)):
        used = usage[column[k]]
        if choice[row[k]] < 0 and (used <= room + 1e-9).all():
            choice[row[k]] = column[k]
            room -= used
    return choice


@dataclass
class Relaxed:
    """The LP relaxation by some solver of linear programs, made whole by COpter's shim: LP* of table 4.1.

    Solved to its end, whatever the time limit: without it there is no plan.
    """

    solver: LpSolver
    _serial: dict[str, int] = field(default_factory=dict)  # numbers that stay a job's own

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        start_s = time.perf_counter()
        entries, usage, capacity = program.entries(order), program.usage, program.capacity
        required = _satisfiable(entries, program.required(order), usage, capacity)
        linear = linear_program(entries, len(order), usage, capacity, required, integer=False)
        found = self._solve(linear, entries, order, usage.shape[1], len(capacity))
        if found.x is None:
            none = np.full(len(order), -1)
            return _solution(none, program, order, entries, np.inf, np.zeros(len(capacity)), gap, start_s, found)
        choice = largest_weights(entries, found.x, len(order), usage, capacity)
        prices = np.zeros(len(capacity)) if found.row_dual is None else -found.row_dual[len(order) :]
        prices = np.maximum(prices, 0.0)
        return _solution(choice, program, order, entries, -found.bound, prices, gap, start_s, found)

    def _solve(
        self, linear: LinearProgram, entries: Entries, order: Sequence[str], columns: int, limits: int
    ) -> LinearSolution:
        if not isinstance(self.solver, HotHighs):
            return self.solver.solve(linear)
        serial = np.array([self._serial.setdefault(id, len(self._serial)) for id in order], np.int64)
        return self.solver.solve(
            linear,
            serial[entries.row] * columns + entries.column,
            np.concatenate([limits + serial, np.arange(limits)]),
        )


@dataclass(frozen=True)
class Ilp:
    """The integer program, whole and as it stands, by HiGHS's branch and bound."""

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        start_s = time.perf_counter()
        entries, usage, capacity = program.entries(order), program.usage, program.capacity
        required = _satisfiable(entries, program.required(order), usage, capacity)
        linear = linear_program(entries, len(order), usage, capacity, required, integer=True)
        found = Highs(Method.EXACT, time_limit_s=time_limit_s, gap=max(gap, 1e-9)).solve(linear)
        weight = np.zeros(len(entries.row)) if found.x is None else found.x
        choice = np.full(len(order), -1, np.int64)
        picked = weight > 0.5
        choice[entries.row[picked]] = entries.column[picked]
        none = np.zeros(len(capacity))
        return _solution(choice, program, order, entries, -found.bound, none, gap, start_s, found)


@dataclass(frozen=True)
class _Part:
    """Some jobs, with a k-th of every capacity."""

    rows: np.ndarray
    entries: Entries
    capacity: np.ndarray


@dataclass(frozen=True)
class _Partition:
    """POP of one round: jobs evenly and at random, capacities evenly, what is left over one by one.

    A job takes one configuration, so none is split over parts; one larger than a part is no option in it.
    Jobs that were in a part stay there, as in COpter's public code: else new neighbours alone would move them.
    """

    entries: Entries
    held: np.ndarray  # (jobs,) the part a job was in, -1: it is new
    usage: np.ndarray
    capacity: np.ndarray
    required: np.ndarray
    gap: float
    time_limit_s: float
    structured: bool

    def split(self, k: int, rng: np.random.Generator) -> list[_Part]:
        each = np.floor(self.capacity / k)
        capacities = [each + np.clip(self.capacity - each * k - p, 0.0, 1.0) for p in range(k)]
        fits = [(self.usage[:, self.entries.column] <= capacity[:, None]).all(axis=0) for capacity in capacities]
        part_of = self._parts(np.array(fits), rng)
        parts = []
        for p, capacity in enumerate(capacities):
            rows = np.flatnonzero(part_of == p)
            mine = (part_of[self.entries.row] == p) & fits[p]
            row = np.searchsorted(rows, self.entries.row[mine])
            parts.append(_Part(rows, Entries(row, self.entries.column[mine], self.entries.gain[mine]), capacity))
        return parts

    def _parts(self, fits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(jobs,) the part of each, for fits: (parts, options) whether an option is small enough for a part.

        A job leaves a part in which none of its options is, if there is another; new ones go to the smallest.
        """
        has_option = np.array([np.bincount(self.entries.row[fit], minlength=len(self.held)) > 0 for fit in fits])
        part_of = np.where(self.held < len(fits), self.held, -1)
        there = has_option[part_of, np.arange(len(part_of))]
        part_of[~there & has_option.any(axis=0)] = -1
        sizes = np.bincount(part_of[part_of >= 0], minlength=len(fits)).astype(float)
        for job in rng.permutation(np.flatnonzero(part_of < 0)):
            allowed = has_option[:, job] if has_option[:, job].any() else np.ones(len(fits), bool)
            part_of[job] = np.argmin(np.where(allowed, sizes, np.inf))
            sizes[part_of[job]] += 1
        return part_of

    def solve(self, part: _Part) -> np.ndarray:
        required = _satisfiable(part.entries, self.required[part.rows], self.usage, part.capacity)
        if self.structured:
            program, ids = ChoiceProgram.of(_dense(part.entries, self.usage, part.capacity, required))
            return program.solve(ids, self.gap, self.time_limit_s).choice
        linear = linear_program(part.entries, len(part.rows), self.usage, part.capacity, required, integer=True)
        found = Highs(Method.EXACT, time_limit_s=self.time_limit_s, gap=max(self.gap, 1e-9)).solve(linear)
        choice = np.full(len(part.rows), -1, np.int64)
        if found.x is not None:
            picked = found.x > 0.5
            choice[part.entries.row[picked]] = part.entries.column[picked]
        return choice

    def merge(self, parts: Sequence[_Part], answers: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """(what every job picks, the part it was in)."""
        choice, part_of = np.full(len(self.held), -1, np.int64), self.held.copy()
        for p, (part, answer) in enumerate(zip(parts, answers, strict=True)):
            choice[part.rows], part_of[part.rows] = answer, p
        return choice, part_of


@dataclass
class Pop:
    """POP-k, each part's integer program by HiGHS; by Ray, or in turn, with the time that `cores` would take.

    structured: parts are solved as `Structured` solves the whole: what splitting alone costs.
    """

    k: int = _PARTS
    structured: bool = False
    use_ray: bool = False
    cores: int = 2
    seed: int = 0
    _part_of: dict[str, int] = field(default_factory=dict)

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        start_s = time.perf_counter()
        entries = program.entries(order)
        held = np.array([self._part_of.get(id, -1) for id in order], np.int64)
        partition = _Partition(
            entries,
            held,
            program.usage,
            program.capacity,
            program.required(order),
            gap,
            time_limit_s,
            self.structured,
        )
        read_s = time.perf_counter() - start_s
        found = solve_parts(partition, self.k, seed=self.seed, cores=self.cores, use_ray=self.use_ray)
        self.seed += 1
        choice, part_of = found.whole
        self._part_of = dict(zip(order, part_of.tolist(), strict=True))
        seconds = read_s + found.seconds
        value = _objective(choice, entries)
        none = np.zeros(len(program.capacity))
        return ChoiceSolution(
            choice,
            value,
            np.inf,
            np.inf,
            none,
            False,
            _unmet(program, order, choice),
            seconds,
            seconds,
            len(entries.row),
        )


@dataclass
class Continual:
    """The LP relaxation by the continual engine, told what changed since the last round, and COpter's shim.

    Jobs are its requests, by the stamps of their options: one whose options are others leaves, and comes anew; of
    all others the costs are written over, as ageing alone changes them in every round.
    """

    tolerance: float = 1e-4
    threads: int = 2
    _engine: ContinualProgram = field(default_factory=lambda: ContinualProgram(maximise=True))
    _told: ChoiceProgram | None = None
    _known: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # requests there are, rising
    _limits: tuple[np.ndarray, np.ndarray] | None = None  # usage, capacity
    _names: tuple[str, ...] = ()  # of limits

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        start_s = time.perf_counter()
        entries, usage, capacity = program.entries(order), program.usage, program.capacity
        required = _satisfiable(entries, program.required(order), usage, capacity)
        requests = self._tell(program, order, entries, required)
        found = self._engine.solve(self.tolerance, self.threads, time_limit_s)
        choice = largest_weights(entries, found.of_all(requests.tolist()), len(order), usage, capacity)
        prices = np.maximum([found.price(name) for name in self._names], 0.0)
        linear = LinearSolution(found.status, seconds=found.seconds)
        return _solution(choice, program, order, entries, found.bound, prices, gap, start_s, linear)

    def _tell(
        self, program: ChoiceProgram, order: Sequence[str], entries: Entries, required: np.ndarray
    ) -> np.ndarray:
        """Bring the engine to this round; returns its request of each row."""
        usage, capacity = program.usage, program.capacity
        if self._told is not program or self._limits is None or not np.array_equal(self._limits[0], usage):
            self._engine, self._told, self._limits = ContinualProgram(maximise=True), program, None
            self._known = np.empty(0, np.int64)
            self._names = tuple(f"limit-{i}" for i in range(len(capacity)))
        for i, most in enumerate(capacity.tolist()):
            if self._limits is None or self._limits[1][i] != most:
                self._engine.set_capacity(self._names[i], most)
        self._limits = usage, capacity
        requests = 2 * program.stamps(order) + required
        place = np.searchsorted(self._known, requests)
        stays = np.append(self._known, -1)[place] == requests
        self._engine.remove_requests(np.delete(self._known, place[stays]).tolist())
        self._known = np.sort(requests)
        apart = _apart(entries.row, entries.column, entries.gain, stays, usage)
        staying, coming, sizes, begin, index, used = apart
        self._engine.change_costs(requests[stays].tolist(), staying)
        ends = pairwise(begin.tolist())
        uses = {name: (index[a:b], used[a:b]) for name, (a, b) in zip(self._names, ends, strict=True)}
        one = Row(1.0, np.where(required[~stays], 1.0, -np.inf), 1.0)
        self._engine.add_requests(requests[~stays].tolist(), sizes[~stays], coming, uses, [one])
        return requests


@kernel
def _apart(
    row: np.ndarray, column: np.ndarray, gain: np.ndarray, stays: np.ndarray, usage: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Gains of rows that stay, gains of the others, the sizes of all rows; and what the others use of each limit.

    That is (begin, index, used): of limit i those from begin[i] to begin[i + 1], index among the others' gains.
    """
    limits, sizes, old = len(usage), np.zeros(len(stays), np.int64), 0
    for i in row:
        sizes[i] += 1
        if stays[i]:
            old += 1
    staying, coming, place = np.empty(old), np.empty(len(row) - old), np.empty(len(row) - old, np.int64)
    old, new = 0, 0
    for k in range(len(row)):
        if stays[row[k]]:
            staying[old] = gain[k]
            old += 1
        else:
            coming[new], place[new] = gain[k], column[k]
            new += 1
    begin, count = np.zeros(limits + 1, np.int64), 0
    for i in range(limits):
        for c in place:
            count += usage[i, c] != 0.0
        begin[i + 1] = count
    index, used, count = np.empty(count, np.int64), np.empty(count), 0
    for i in range(limits):
        for k in range(new):
            mine = usage[i, place[k]]
            if mine != 0.0:
                index[count], used[count] = k, mine
                count += 1
    return staying, coming, sizes, begin, index, used


def _objective(choice: np.ndarray, entries: Entries) -> float:
    return float(entries.gain[choice[entries.row] == entries.column].sum())


def _unmet(program: ChoiceProgram, order: Sequence[str], choice: np.ndarray) -> tuple[int, ...]:
    """Jobs that had to pick something and did not, the last ones first."""
    return tuple(np.flatnonzero(program.required(order) & (choice < 0))[::-1].tolist())


def _solution(
    choice: np.ndarray,
    program: ChoiceProgram,
    order: Sequence[str],
    entries: Entries,
    bound: float,
    prices: np.ndarray,
    gap: float,
    start_s: float,
    found: LinearSolution,
) -> ChoiceSolution:
    value = _objective(choice, entries)
    bound = max(bound, value)
    relative = (bound - value) / max(abs(bound), 1e-7)
    seconds = time.perf_counter() - start_s
    return ChoiceSolution(
        choice,
        value,
        bound,
        relative,
        prices,
        relative <= gap + 1e-7,
        _unmet(program, order, choice),
        seconds,
        found.seconds,
        len(entries.row),
    )


_SOLVERS: dict[str, Callable[[], AllocationSolver]] = {
    "structured": Structured,
    "milp": Reduced,
    "ilp": Ilp,
    "highs": lambda: Relaxed(Highs(Method.SIMPLEX)),
    "highs-ipm": lambda: Relaxed(Highs(Method.INTERIOR_POINT)),
    "highs-pdlp": lambda: Relaxed(Highs(Method.PDLP)),
    "highs-hot": lambda: Relaxed(HotHighs(Method.SIMPLEX)),
    "highs-pdlp-hot": lambda: Relaxed(HotHighs(Method.PDLP)),
    "pop": Pop,
    "pop-ray": lambda: Pop(use_ray=True),
    "pop-structured": lambda: Pop(structured=True),
    "continual": Continual,
}


def allocation_solvers() -> tuple[str, ...]:
    return tuple(_SOLVERS)


def allocation_solver(name: str) -> AllocationSolver:
    """A new solver; raises ValueError for an unknown name."""
    if name not in _SOLVERS:
        raise ValueError(f"solver: {name!r} is unknown; accepted: {', '.join(_SOLVERS)}")
    return _SOLVERS[name]()
