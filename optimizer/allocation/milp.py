"""Each row picks at most one column, and what is picked fits: an exact integer program on HiGHS.

    maximise    sum over rows r, columns c of value[r, c] * x[r, c]
    subject to  sum over c of x[r, c] <= 1 (= 1 where required),   usage @ (sum over r of x[r, :]) <= capacity,
                x binary, and 0 where not allowed

This is Sia's program (equation 3.4) and that of every policy of its kind: a multiple-choice knapsack with many
rows and a handful of capacities. That shape is what makes it fast to solve exactly: a vertex of the LP
relaxation has no more fractional rows than there are capacities, so the LP, rounded and filled up, is
within a few rows of the optimum; and what its reduced costs prove to be in no better solution is left out
of the integer program.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace

import highspy
import numpy as np

from .problem import TOLERANCE, ChoiceProblem, ChoiceSolution
from .units import limit_units, unit_of

_MOST_S = 10.0  # to tell who of those required can be served


def meet_required(problem: ChoiceProblem, time_limit_s: float = math.inf) -> tuple[np.ndarray, tuple[int, ...]]:
    """(rows,) a column for as many rows as can have one together, and who goes without.

    Of as many, earlier rows are served before later ones: two that fit go before an earlier one that takes the
    room of both.

    Half of the time limit is what is spent on it at most, and ten seconds.
    """
    required = np.ones(len(problem.value), dtype=bool)
    limit = limit_units(problem.usage)
    problem = replace(problem, usage=problem.usage / limit[:, None], capacity=problem.capacity / limit)
    entries = _candidates(problem, required)
    picked, unmet = _meet_required(entries, required, problem, _Clock(min(time_limit_s, 2.0 * _MOST_S)))
    return np.where(picked >= 0, entries.column[picked] if len(entries) else -1, -1), unmet


@dataclass
class _Clock:
    """The deadline, and the part of the time that HiGHS took."""

    limit_s: float
    start: float = field(default_factory=time.perf_counter)
    highs_s: float = 0.0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start

    @property
    def left_s(self) -> float:
        return self.limit_s - self.seconds


@dataclass(frozen=True)
class _Entries:
    """The variables: row, column, value and usage (limits, entries) of each; sorted by row."""

    row: np.ndarray
    column: np.ndarray
    value: np.ndarray
    usage: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def take(self, keep: np.ndarray) -> _Entries:
        return _Entries(self.row[keep], self.column[keep], self.value[keep], self.usage[:, keep])


def solve(
    problem: ChoiceProblem,
    time_limit_s: float = 10.0,
    gap: float = 1e-4,
    known: np.ndarray | None = None,
    prices: np.ndarray | None = None,
) -> ChoiceSolution:
    """The best choice found within `time_limit_s`, to a relative gap.

    There always is one: where HiGHS gets no time at all, it is that of a greedy pass. Where the required
    rows do not all fit, as many of them as can be are satisfied, earlier ones before later ones.

    known: (rows,) a choice to begin with, -1: nothing. Where it fits and serves what is required the result is no
    worse, and the better it is the fewer options are left to HiGHS.
    prices: (limits,) of at least 0, about those of the LP relaxation, which then is not solved.
    """
    start_s = time.perf_counter()
    most = np.abs(problem.value).max(axis=1, initial=0.0, where=problem.allowed)
    gain, limit = unit_of(float(most.mean()) if len(most) else 0.0), limit_units(problem.usage)
    if gain == 1.0 and (limit == 1.0).all():
        return _solve(problem, time_limit_s, gap, known, prices)
    usage, capacity = problem.usage / limit[:, None], problem.capacity / limit
    counted = replace(problem, value=problem.value / gain, usage=usage, capacity=capacity)
    found = _solve(counted, time_limit_s, gap, known, None if prices is None else prices * limit / gain)
    return replace(
        found,
        objective=found.objective * gain,
        bound=found.bound * gain,
        prices=found.prices * gain / limit,
        seconds=time.perf_counter() - start_s,
    )


def _solve(
    problem: ChoiceProblem, time_limit_s: float, gap: float, known: np.ndarray | None, prices: np.ndarray | None
) -> ChoiceSolution:
    """A problem whose numbers are about 1."""
    clock = _Clock(time_limit_s)
    rows = problem.value.shape[0]
    required = np.zeros(rows, dtype=bool) if problem.required is None else problem.required
    entries = _candidates(problem, required)
    base, unmet = _meet_required(entries, required, problem, clock)
    if unmet:
        required = required.copy()
        required[list(unmet)] = False
    start = base
    if known is None or prices is None:
        start = _fill(base, entries, problem.capacity)
    if known is not None:
        given = _as_good(known, entries, problem.usage)
        fits = (_used(given, entries) <= problem.capacity + TOLERANCE).all()
        if fits and (given[required] >= 0).all():
            start = max(start, given, key=lambda picked: _objective(picked, entries))

    def result(picked: np.ndarray, bound: float, prices: np.ndarray) -> ChoiceSolution:
        chosen = picked[picked >= 0]
        choice = np.full(rows, -1, dtype=np.int64)
        choice[entries.row[chosen]] = entries.column[chosen]
        objective = float(entries.value[chosen].sum())
        bound = max(bound, objective)
        relative = (bound - objective) / max(abs(bound), TOLERANCE)
        proven = relative <= gap + TOLERANCE
        without = tuple(i for i in unmet if choice[i] < 0)  # others were given what was left
        return ChoiceSolution(
            choice, objective, bound, relative, prices, proven, without, clock.seconds, clock.highs_s, len(entries)
        )

    best_each = np.full(rows, -np.inf)
    np.maximum.at(best_each, entries.row, entries.value)
    loose = float(np.where(required, best_each, np.maximum(best_each, 0.0)).clip(min=-1e300).sum())
    no_prices = np.zeros(len(problem.capacity))
    if not len(entries):
        return result(start, 0.0, no_prices)
    if prices is None:
        relaxed = _relax(entries, required, problem.capacity, clock)
        if relaxed is None:
            return result(start, loose, no_prices)
        lp, x = relaxed
        rounded = _fill(_round(x, entries, base, required, problem.capacity), entries, problem.capacity)
        best = max(start, rounded, key=lambda picked: _objective(picked, entries))
    else:
        lp, best = _priced(entries, required, problem.capacity, prices), start
    short = lp.bound - _objective(best, entries)
    # Relative to the bound that is returned, which is nearer to 0 where all is worth less than nothing.
    wanted = gap * min(abs(lp.bound), abs(_objective(best, entries)) / (1.0 + gap))
    if short <= wanted + TOLERANCE:
        return result(best, lp.bound, lp.prices)
    picked, bound = _branch(entries, required, problem.capacity, lp, best, short, wanted, clock)
    return result(picked, bound, lp.prices)


def _candidates(problem: ChoiceProblem, required: np.ndarray) -> _Entries:
    """Allowed entries that fit, are worth more than nothing, and are not dominated.

    An entry is dominated by one of its row that uses no more of anything and is worth as much. Columns
    whose usages form a chain (all of one GPU type, as a rule) are swept by a running maximum.
    """
    fits = (problem.usage <= problem.capacity[:, None] + TOLERANCE).all(axis=0)
    open_ = problem.allowed & fits & ((problem.value > 0) | required[:, None])
    value = np.where(open_, problem.value, -np.inf)
    keep = np.zeros_like(open_)
    group = np.where((problem.usage > 0).any(axis=0), (problem.usage > 0).argmax(axis=0), -1)
    for g in np.unique(group):
        columns = np.flatnonzero(group == g)
        columns = columns[np.argsort(problem.usage[:, columns].sum(axis=0), kind="stable")]
        if (np.diff(problem.usage[:, columns], axis=1) >= 0).all():
            seen = np.maximum.accumulate(value[:, columns], axis=1)
            keep[:, columns[0]] = open_[:, columns[0]]
            keep[:, columns[1:]] = value[:, columns[1:]] > seen[:, :-1]
        else:
            for i, c in enumerate(columns):
                below = columns[:i][(problem.usage[:, columns[:i]] <= problem.usage[:, [c]]).all(axis=0)]
                best = value[:, below].max(axis=1, initial=-np.inf)
                keep[:, c] = value[:, c] > best
    row, column = np.nonzero(keep & open_)
    return _Entries(row, column, problem.value[row, column], problem.usage[:, column])


def _objective(picked: np.ndarray, entries: _Entries) -> float:
    return float(entries.value[picked[picked >= 0]].sum())


def _as_good(choice: np.ndarray, entries: _Entries, usage: np.ndarray) -> np.ndarray:
    """Picks that use no more than the choice: of each row the most worth that does not."""
    of_row = choice[entries.row]
    fits = (of_row >= 0) & (entries.usage <= usage[:, of_row]).all(axis=0)
    order = np.flatnonzero(fits)
    order = order[np.argsort(entries.value[order], kind="stable")]
    picked = np.full(len(choice), -1, dtype=np.int64)
    picked[entries.row[order]] = order  # the last, and so the best, stays
    return picked


def _used(picked: np.ndarray, entries: _Entries) -> np.ndarray:
    return np.asarray(entries.usage[:, picked[picked >= 0]].sum(axis=1))


def _fill(picked: np.ndarray, entries: _Entries, capacity: np.ndarray) -> np.ndarray:
    """Improve a feasible pick (entry index per row, or -1) until no single change of a row both fits and gains.

    Changes are taken in order of gain per share of the capacities they need.
    """
    picked = picked.copy()
    if not len(entries):
        return picked
    scale = 1.0 / np.maximum(capacity, 1.0)
    slack = capacity - _used(picked, entries)
    while True:
        now = picked[entries.row]
        has = now >= 0
        gain = entries.value - np.where(has, entries.value[now], 0.0)
        more = entries.usage - np.where(has, entries.usage[:, now], 0.0)
        option = np.flatnonzero((gain > TOLERANCE) & (more <= slack[:, None] + TOLERANCE).all(axis=0))
        if not len(option):
            return picked
        rate = gain[option] / (np.maximum(scale @ more[:, option], 0.0) + TOLERANCE)
        order = option[np.argsort(-rate, kind="stable")]
        # The first, hence best, change of each row; all that fit together are taken in one sweep.
        order = order[np.sort(np.unique(entries.row[order], return_index=True)[1])]
        for k in order:
            if (more[:, k] <= slack + TOLERANCE).all():
                slack -= more[:, k]
                picked[entries.row[k]] = k


def _meet_required(
    entries: _Entries, required: np.ndarray, problem: ChoiceProblem, clock: _Clock
) -> tuple[np.ndarray, tuple[int, ...]]:
    """A feasible pick of the required rows alone, and those of them that have to do without."""
    picked = np.full(len(required), -1, dtype=np.int64)
    if not required.any():
        return picked, ()
    mine = np.flatnonzero(required[entries.row])
    ranks = np.cumsum(required) - 1
    count = int(required.sum())
    # As many rows as can be; among equals the earlier ones; then the less usage the better.
    size = entries.usage[:, mine].sum(axis=0)
    weight = 2.0 - ranks[entries.row[mine]] / count**2 - 1e-3 * size / max(size.sum(initial=0.0), 1.0) / count
    alone = _Entries(entries.row[mine], entries.column[mine], weight, entries.usage[:, mine])
    chosen = _fill(picked, alone, problem.capacity)
    if (chosen[required] < 0).any() and len(alone):
        half = _Clock(clock.left_s / 2.0)  # the rest is for what they have
        found = _integer(alone, np.zeros_like(required), problem.capacity, chosen, 0.0, half)
        clock.highs_s += half.highs_s
        chosen = found[0] if found is not None else chosen
    got = chosen >= 0
    picked[got] = mine[chosen[got]]
    return picked, tuple(int(r) for r in np.flatnonzero(required & ~got)[::-1])


@dataclass(frozen=True)
class _Relaxation:
    reduced: np.ndarray  # (entries,) objective lost per unit, >= 0 where the relaxation takes none
    idle: np.ndarray  # (rows,) objective lost by leaving the row out
    prices: np.ndarray
    bound: float


def _highs(clock: _Clock) -> highspy.Highs:
    highs = highspy.Highs()
    options = {"output_flag": False, "threads": 1, "random_seed": 0, "time_limit": max(clock.left_s, 1e-3)}
    for name, value in options.items():
        highs.setOptionValue(name, value)
    return highs


def _pass_model(
    highs: highspy.Highs, entries: _Entries, required: np.ndarray, capacity: np.ndarray, *, integer: bool
) -> np.ndarray:
    """Hand the program to HiGHS as row-wise arrays; returns the rows that have entries, in model order."""
    n, limits = len(entries), len(capacity)
    rows, first = np.unique(entries.row, return_index=True)
    limit, entry = np.nonzero(entries.usage)
    counts = np.bincount(limit, minlength=limits)
    starts = np.concatenate([first, n + np.concatenate([[0], np.cumsum(counts)])]).astype(np.int32)
    index = np.concatenate([np.arange(n), entry]).astype(np.int32)
    values = np.concatenate([np.ones(n), entries.usage[limit, entry]])
    # No lower side where none is meant: it would take a dual of its own, and the bound would be none.
    lower = np.concatenate(
        [np.where(required[rows], 1.0, -highspy.kHighsInf), np.full(limits, -highspy.kHighsInf)]
    )
    upper = np.concatenate([np.ones(len(rows)), capacity])
    highs.passModel(
        n,
        len(rows) + limits,
        len(index),
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        -entries.value,
        np.zeros(n),
        # In the LP the row alone limits an entry: a bound of 1 beside it would share the row's dual.
        np.full(n, 1.0 if integer else highspy.kHighsInf),
        lower,
        upper,
        starts,
        index,
        values,
        np.full(n, int(highspy.HighsVarType.kInteger if integer else highspy.HighsVarType.kContinuous), np.int32),
    )
    return rows


def _run(highs: highspy.Highs, clock: _Clock) -> highspy.HighsModelStatus:
    began = time.perf_counter()
    highs.run()
    clock.highs_s += time.perf_counter() - began
    return highs.getModelStatus()


def _relax(
    entries: _Entries, required: np.ndarray, capacity: np.ndarray, clock: _Clock
) -> tuple[_Relaxation, np.ndarray] | None:
    """The LP relaxation and its solution, (entries,); None where there was no time for it."""
    if clock.left_s <= 0:
        return None
    highs = _highs(clock)
    highs.setOptionValue("presolve", "off")
    rows = _pass_model(highs, entries, required, capacity, integer=False)
    if _run(highs, clock) != highspy.HighsModelStatus.kOptimal:
        return None
    solution = highs.getSolution()
    dual = np.asarray(solution.row_dual)
    prices = np.maximum(-dual[len(rows) :], 0.0)
    worth = np.zeros(len(required))
    worth[rows] = -dual[: len(rows)]
    reduced = worth[entries.row] + prices @ entries.usage - entries.value
    idle = np.where(required, np.inf, worth)
    bound = float(worth.sum() + prices @ capacity)
    return _Relaxation(reduced, idle, prices, bound), np.asarray(solution.col_value)


def _priced(entries: _Entries, required: np.ndarray, capacity: np.ndarray, prices: np.ndarray) -> _Relaxation:
    """What prices say of the LP relaxation: a bound, and what every entry loses against its row's best."""
    net = entries.value - prices @ entries.usage
    worth = np.where(required, -np.inf, 0.0)
    np.maximum.at(worth, entries.row, net)
    worth[np.isinf(worth)] = 0.0  # required, and nothing is left for it
    idle = np.where(required, np.inf, worth)
    bound = float(worth.sum() + prices @ capacity)
    return _Relaxation(worth[entries.row] - net, idle, prices, bound)


def _round(
    x: np.ndarray, entries: _Entries, base: np.ndarray, required: np.ndarray, capacity: np.ndarray
) -> np.ndarray:
    """Rows that the LP decides keep its choice; for the few others, what it gave most weight to, if it fits."""
    picked = np.full(len(required), -1, dtype=np.int64)
    sure = np.flatnonzero(x > 1 - 1e-6)
    picked[entries.row[sure]] = sure
    slack = capacity - _used(picked, entries)
    open_ = np.flatnonzero((x > 1e-6) & (x <= 1 - 1e-6))
    for k in open_[np.argsort(-x[open_], kind="stable")]:
        if picked[entries.row[k]] < 0 and (entries.usage[:, k] <= slack + TOLERANCE).all():
            picked[entries.row[k]] = k
            slack -= entries.usage[:, k]
    return base if (picked[required] < 0).any() else picked


def _branch(
    entries: _Entries,
    required: np.ndarray,
    capacity: np.ndarray,
    lp: _Relaxation,
    best: np.ndarray,
    short: float,
    wanted: float,
    clock: _Clock,
) -> tuple[np.ndarray, float]:
    """Close the gap with branch and bound over what reduced costs leave open.

    With `best` at `short` below the LP bound, a solution that is better by more than `wanted` contains no entry
    whose reduced cost exceeds the rest of `short`, and leaves no row out whose idling costs more than that.
    """
    rest, enough = short - wanted + TOLERANCE, _objective(best, entries) + wanted
    kept = lp.reduced <= rest
    kept[best[best >= 0]] = True  # or HiGHS could not begin with it
    keep = np.flatnonzero(kept)
    must = required | ((lp.idle > rest) & (best >= 0))
    alone = np.bincount(entries.row[keep], minlength=len(required)) == 1
    settled_rows = must & alone
    is_settled = settled_rows[entries.row[keep]]
    settled, left = keep[is_settled], entries.take(keep[~is_settled])
    room = capacity - entries.usage[:, settled].sum(axis=1)
    value_settled = float(entries.value[settled].sum())
    if not len(left) or (room < -TOLERANCE).any():
        # Nothing that is still open can beat `best` by so much.
        return best, min(lp.bound, enough)
    must &= ~settled_rows
    index = np.full(len(entries), -1, dtype=np.int64)
    index[keep[~is_settled]] = np.arange(len(left))
    warm = np.where(best >= 0, index[best], -1)
    found = _integer(left, must, np.maximum(room, 0.0), warm, wanted, clock)
    if found is None:
        return best, lp.bound
    part, bound = found
    picked = np.full(len(required), -1, dtype=np.int64)
    picked[entries.row[settled]] = settled
    got = part >= 0
    picked[got] = keep[~is_settled][part[got]]
    picked = max(best, picked, key=lambda p: _objective(p, entries))
    return picked, min(lp.bound, max(bound + value_settled, enough))


def _integer(
    entries: _Entries,
    required: np.ndarray,
    capacity: np.ndarray,
    warm: np.ndarray,
    absolute_gap: float,
    clock: _Clock,
) -> tuple[np.ndarray, float] | None:
    """HiGHS branch and bound: (pick, bound), or None where it found nothing in the time that was left.

    A program without a solution (a restriction that holds nothing better) has an empty pick and bound -inf.
    """
    if clock.left_s <= 0:
        return None
    highs = _highs(clock)
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.setOptionValue("mip_abs_gap", max(absolute_gap, 1e-6))
    # Its own 1e-6 is more, of a limit of 35,000, than some columns take: it would find more than there is.
    highs.setOptionValue("mip_feasibility_tolerance", 1e-9)
    highs.setOptionValue("primal_feasibility_tolerance", 1e-9)
    _pass_model(highs, entries, required, capacity, integer=True)
    hint = np.zeros(len(entries))
    hint[warm[warm >= 0]] = 1.0
    start = highspy.HighsSolution()
    start.col_value = list(hint)
    highs.setSolution(start)
    status = _run(highs, clock)
    if status == highspy.HighsModelStatus.kInfeasible:
        return np.full(len(required), -1, dtype=np.int64), -np.inf
    info = highs.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    chosen = np.flatnonzero(np.asarray(highs.getSolution().col_value) > 0.5)
    picked = np.full(len(required), -1, dtype=np.int64)
    picked[entries.row[chosen]] = chosen
    if (_used(picked, entries) > capacity + 1e-6).any():
        picked = warm  # the bound holds of what is a little too much as well
    return picked, float(-info.mip_dual_bound)
