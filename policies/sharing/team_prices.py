"""Solves the program of a round with the caps and guarantees of teams, by prices of teams.

1. The plan without teams is taken if it keeps all terms.
2. Else caps get prices, by warm solves of the program whose gains pay these prices, and the plan is repaired.
3. If guarantees are unmet then, they get prices, too. Jobs under lease are no worse off than by step 2.

Each step proves its gap against the program with its constraints, by the Lagrangian bound of all prices. HiGHS
closes what is left of small programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...optimizer.allocation import ChoiceProgram, ChoiceSolution
from ...optimizer.allocation.options import Flags, Floats, Ints
from .asked import asked
from .dual import Prices, best, bound, net_gain, settle, team_gain
from .exact import close, fewest_short, relaxed
from .options import EQUAL, TeamOptions, Terms
from .repair import Repair

_SOLVES = 4  # most warm solves of one step
FEW = 6000  # options up to which HiGHS may close the gap
_LEAST_GAP = 1e-5  # a gap below it is as good as none where teams have terms


@dataclass(frozen=True, eq=False)
class TeamsOf:
    """The teams of a program's rows and columns, and what is left of their terms beside jobs that are not in it.

    team: (rows,) -1: none. leased: (rows,) whether the lease of the job runs.
    gpu_type, gpus: (columns,).
    cap, guarantee: (teams, types); infinity for no cap.
    """

    team: Ints
    leased: Flags
    gpu_type: Ints
    gpus: Floats
    cap: Floats
    guarantee: Floats


@dataclass(frozen=True, eq=False)
class TeamSolution:
    """A plan with the terms of teams, and what it went by.

    solution: objective and bound are those of the program with the terms.
    over, under: (teams, types) the prices of caps and of guarantees, for each GPU.
    asked, covered: (teams, types) GPUs of each guarantee that are asked for, and by how many the plan covers them.
    short: GPUs of guarantees that no plan gives, as the nodes or what may not be moved leave no room.
    """

    solution: ChoiceSolution
    over: Floats
    under: Floats
    asked: Floats
    covered: Floats
    short: float = 0.0


@dataclass(frozen=True, eq=False)
class _Step:
    """A plan, what is proven of it, and the prices that prove it."""

    plan: Ints
    bound: float
    prices: Prices
    terms: Terms
    short: float = 0.0


class TeamPrices:
    """Solves rounds one after another. Prices of teams and the program that pays them stay from round to round.

    Args:
        few: options up to which HiGHS finds the prices, and closes the gap.
    """

    def __init__(self, few: int = FEW) -> None:
        self._few = few
        self._program: ChoiceProgram | None = None
        self._put: tuple[TeamOptions, Floats] | None = None  # what it holds: options, and their gains
        self._last: dict[str, Floats] = {}

    def solve(
        self,
        program: ChoiceProgram,
        order: Sequence[str],
        free: ChoiceSolution,
        teams: TeamsOf,
        gap: float,
        time_limit_s: float,
    ) -> TeamSolution:
        """Return the plan with the terms of teams. `free` is the program's solution without them."""
        options = TeamOptions.of(program, order, teams.team, len(teams.cap), teams.gpu_type, teams.gpus)
        options = within_caps(without(options, free.unmet), teams.cap.ravel())
        nothing = np.zeros(options.places + 1)
        terms = Terms.caps(options, teams.cap.ravel())
        plan = options.plan_of(free.choice)
        step = _Step(plan, free.bound, Prices(free.prices, nothing, nothing), terms)
        gap = max(gap, _LEAST_GAP)
        lost = (plan < 0) & (free.choice >= 0)  # options beyond a cap are none
        if lost.any() or terms.over(options, plan).any():
            step = self._step(program, options, step, "caps", gap, time_limit_s)
        guarantee = teams.guarantee.ravel()
        wants = guarantee > options.of_places(step.plan)
        if wants.any():
            terms = asked(options, guarantee, wants, teams.cap.ravel())
            if terms.short(options, step.plan).any():
                some, floors = protected(options, terms, step.plan, teams.leased)
                begin = replace(step, plan=some.plan_of(options.choice(step.plan)), terms=floors)
                found = self._step(program, some, begin, "floors", gap, time_limit_s)
                options, terms, step = some, floors, found
        return self._told(options, terms, step, free, gap, teams.cap.shape)

    def _told(
        self,
        options: TeamOptions,
        terms: Terms,
        step: _Step,
        free: ChoiceSolution,
        gap: float,
        shape: tuple[int, ...],
    ) -> TeamSolution:
        over, under = (price[:-1].reshape(shape) for price in (step.prices.over, step.prices.under))
        covered = terms.covered(options, step.plan).reshape(shape)
        if np.array_equal(options.choice(step.plan), free.choice):  # it is the plan without teams, to the bit
            return TeamSolution(free, over, under, terms.floor.reshape(shape), covered, step.short)
        value = options.value(step.plan)
        top = max(step.bound, value)
        relative = (top - value) / max(abs(top), EQUAL)
        must = options.required.copy()
        must[list(free.unmet)] = True
        solution = replace(
            free,
            choice=options.choice(step.plan),
            objective=value,
            bound=top,
            gap=relative,
            prices=step.prices.limit,
            proven=relative <= gap + EQUAL,
            unmet=tuple(np.flatnonzero(must & (step.plan < 0)).tolist()),
        )
        return TeamSolution(solution, over, under, terms.floor.reshape(shape), covered, step.short)

    def _step(
        self,
        program: ChoiceProgram,
        options: TeamOptions,
        begin: _Step,
        kind: str,
        gap: float,
        time_limit_s: float,
    ) -> _Step:
        """Return the best plan that keeps the terms of `begin`."""
        if len(options.row) > self._few:
            return self._priced(program, options, begin, kind, gap, time_limit_s)
        terms = begin.terms
        prices, plan = relaxed(options, terms, time_limit_s) or (begin.prices, begin.plan)
        repair = Repair(options, terms, plan, prices.limit)
        fits = repair.mend()
        top = bound(options, terms, prices, best(options, net_gain(options, terms, prices))[0])
        return self._finished(options, terms, repair if fits else None, top, prices, gap, time_limit_s)

    def _priced(
        self,
        program: ChoiceProgram,
        options: TeamOptions,
        begin: _Step,
        kind: str,
        gap: float,
        time_limit_s: float,
    ) -> _Step:
        """Return the best plan that keeps the terms of `begin`, by prices of teams."""
        terms, prices = begin.terms, begin.prices
        last = self._last.get(kind)
        if last is not None and last.shape == (2, options.places + 1):
            prices = Prices(prices.limit, *last)
        before, top, proof, short_plan = np.inf, np.inf, prices, begin.plan
        for turn in range(_SOLVES):
            if turn or not prices.has_teams:
                used = options.of_places(short_plan)
                caps = (used > terms.cap + EQUAL) | (prices.over[:-1] > 0)
                floors = (terms.short(options, short_plan) > EQUAL) | (prices.under[:-1] > 0)
                prices = settle(options, terms, prices, caps, floors)
            solved = self._solve(program, options, terms, prices, gap)
            prices = Prices(solved.prices, prices.over, prices.under)
            worth, short_plan = best(options, net_gain(options, terms, prices))
            if (high := bound(options, terms, prices, worth)) < top:
                top, proof = high, prices
            if before - top <= gap * abs(top):
                break
            before = top
        repair = Repair(options, terms, options.plan_of(solved.choice), solved.prices)
        fits = repair.mend()
        self._last[kind] = np.stack([proof.over, proof.under])
        return self._finished(options, terms, repair if fits else None, top, proof, gap, time_limit_s)

    def _finished(
        self,
        options: TeamOptions,
        terms: Terms,
        repair: Repair | None,
        top: float,
        proof: Prices,
        gap: float,
        time_limit_s: float,
    ) -> _Step:
        few = len(options.row) <= self._few
        plan = np.full(options.rows, -1) if repair is None else repair.plan
        serves = repair is not None and repair.serves
        short = float(terms.short(options, plan).sum())
        if (not serves or short > EQUAL) and few:
            least = fewest_short(options, terms, time_limit_s)
            if least is not None and (not serves or least[0] < short - EQUAL):
                (short, plan), serves = least, True
        short = 0.0 if short <= EQUAL else short
        value = options.value(plan)
        if short:  # a plan that lacks as little exceeds the bound by at most the dearest price of a guarantee
            top += short * float(proof.under.max())
        if few and serves and top - value > gap * min(abs(top), abs(value)) + EQUAL:
            plan, high = close(options, terms, proof, plan, short, gap, time_limit_s)
            top = min(top, high)
        return _Step(plan, top, proof, terms, short)

    def _solve(
        self,
        program: ChoiceProgram,
        options: TeamOptions,
        terms: Terms,
        prices: Prices,
        gap: float,
    ) -> ChoiceSolution:
        """Solve the program whose gains pay the prices of teams."""
        ids, gain = [str(i) for i in range(options.rows)], team_gain(options, terms, prices)
        rows = np.arange(options.rows)
        if self._program is None or self._program.usage.shape != program.usage.shape:
            groups, size = program.grouping
            self._program = ChoiceProgram(program.usage, program.capacity, groups=groups, size=size)
        elif self._put is not None and self._put[0] is options:
            rows = np.unique(options.row[gain != self._put[1]])  # the others are there already
        else:
            self._program.set_limits(program.usage, program.capacity)
            self._program.remove([id for id in self._program.ids if int(id) >= options.rows])
        self._put = options, gain
        some, place = options.options_of(rows), np.zeros(options.rows, np.int64)
        place[rows] = np.arange(len(rows))
        shape = len(rows), program.usage.shape[-1]
        allowed, value = np.zeros(shape, bool), np.zeros(shape)
        at = place[options.row[some]], options.column[some]
        allowed[at], value[at] = True, gain[some]
        of = [ids[i] for i in rows.tolist()]
        self._program.upsert(of, value, allowed, options.required[rows], options.kind[rows])
        return self._program.solve(ids, gap, 0.0)  # prices are wanted, which HiGHS would not make better


def without(options: TeamOptions, unmet: Sequence[int]) -> TeamOptions:
    """Return the options where rows that cannot be served need not be."""
    required = options.required.copy()
    required[list(unmet)] = False
    return replace(options, required=required) if len(unmet) else options


def within_caps(options: TeamOptions, cap: Floats) -> TeamOptions:
    """Return the options that caps allow. A required row that its team's cap leaves no room is none any more.

    Required rows are served in their order. Each counts with the fewest GPUs that it may have.
    """
    left, required = np.append(cap, np.inf), options.required.copy()
    keep = options.gpus <= left[options.place]
    for row in np.flatnonzero(required).tolist():
        mine = np.arange(options.begin[row], options.begin[row + 1])
        room = mine[options.gpus[mine] <= left[options.place[mine]]]
        if len(room):
            least = room[int(options.gpus[room].argmin())]
            left[options.place[least]] -= options.gpus[least]
        elif len(mine):
            required[row], keep[mine] = False, False
    if keep.all():
        return options
    return options.only(keep, required)


def protected(options: TeamOptions, terms: Terms, plan: Ints, leased: Flags) -> tuple[TeamOptions, Terms]:
    """Return the options and terms in which no job under lease is worse off than by a plan."""
    has = plan >= 0
    least = np.where(leased & has, options.gain[plan] if len(plan) else 0.0, -np.inf)
    keep = options.gain >= least[options.row] - EQUAL
    some = options.only(keep, options.required | (leased & has))
    return some, Terms(terms.cap, terms.floor, terms.elsewhere[keep], terms.covers[keep])
