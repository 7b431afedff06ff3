"""Random small rounds of teams for tests of exactness, and their optimum by scipy's HiGHS, whole and unaided."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from coadapt.optimizer.allocation import ChoiceProgram
from coadapt.policies.sharing.asked import asked
from coadapt.policies.sharing.options import TeamOptions, Terms
from coadapt.policies.sharing.team_prices import TeamPrices, TeamsOf, TeamSolution
from scipy.optimize import Bounds, LinearConstraint, milp

TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Drawn:
    """A round of teams as the solver is given it."""

    program: ChoiceProgram
    ids: list[str]
    teams: TeamsOf

    def options(self) -> TeamOptions:
        t = self.teams
        return TeamOptions.of(self.program, self.ids, t.team, len(t.cap), t.gpu_type, t.gpus)

    def solved(self, guarantees: bool = True, few: int | None = None, gap: float = 1e-3) -> TeamSolution:
        """Solve with the terms of teams; without guarantees, with caps alone.

        Args:
            few: options up to which HiGHS helps; None: as in rounds.
        """
        t = self.teams
        if not guarantees:
            t = TeamsOf(t.team, t.leased, t.gpu_type, t.gpus, t.cap, np.zeros_like(t.guarantee))
        prices = TeamPrices() if few is None else TeamPrices(few)
        return prices.solve(self.program, self.ids, self.program.solve(self.ids, gap), t, gap, 10.0)


def draw(seed: int) -> Drawn:
    """Return a round of 3 to 16 jobs of 2 to 4 teams; some are leased, required or urgent."""
    rng = np.random.default_rng(seed)
    while True:
        found = _draw(rng)
        if not found.program.required(found.ids).any() or optimum(found, guarantees=False) is not None:
            return found


def _draw(rng: np.random.Generator) -> Drawn:
    types, teams, jobs = int(rng.integers(1, 4)), int(rng.integers(2, 5)), int(rng.integers(3, 17))
    capacity = rng.choice([4, 6, 8, 12, 16], types).astype(float)
    sizes = [1, 2, 4, 8, 16]
    columns = [(t, g) for t in range(types) for g in sizes if g <= capacity[t]]
    gpu_type, gpus = (np.array(part) for part in zip(*columns, strict=True))
    usage = np.where(gpu_type == np.arange(types)[:, None], gpus, 0).astype(float)
    speed = rng.lognormal(0, 0.7, (jobs, types))[:, gpu_type]
    rate = speed * gpus ** rng.uniform(0.3, 1.0, (jobs, 1)) * rng.lognormal(0, 0.05, (jobs, len(gpus)))
    allowed = (gpus <= rng.choice(sizes, (jobs, 1))) & (gpus >= rng.choice([1, 1, 1, 2], (jobs, 1)))
    allowed &= rng.random((jobs, types))[:, gpu_type] < 0.85
    rate /= np.where(allowed, rate, np.inf).min(axis=1, keepdims=True).clip(1e-9, 1e9)
    power, offset = (-0.5, 1.1) if rng.random() < 0.6 else (-0.03, 1.5)
    value = np.where(allowed, -(np.maximum(rate, 1e-9) ** power), 0.0)
    factor = rng.choice([0.5, 1.0, 1.0, 2.0, 4.0], jobs) * rng.uniform(0.5, 2.0, jobs)
    current = np.array(
        [rng.choice(np.flatnonzero(row)) if row.any() and rng.random() < 0.6 else -1 for row in allowed]
    )
    stay = np.where(current >= 0, value[np.arange(jobs), current] + 0.1 * rng.random(jobs), 0.0)
    team = rng.choice(np.append(np.arange(teams), -1), jobs, p=[0.95 / teams] * teams + [0.05])
    required = (rng.random(jobs) < 0.05) & allowed.any(axis=1)
    program, ids = ChoiceProgram(usage, capacity, gpu_type, gpus.astype(float)), [f"j{i}" for i in range(jobs)]
    program.upsert(ids, value, allowed, required)
    program.set_weights(ids, factor * offset, factor)
    program.set_incumbents(ids, current, factor * (offset + stay))
    cut = np.sort(rng.integers(0, capacity.astype(int) + 1, (teams - 1, types)), axis=0)
    parts = np.diff(np.concatenate([np.zeros((1, types), int), cut, capacity[None].astype(int)]), axis=0)
    guarantee = np.where(rng.random((teams, types)) < 0.7, parts, 0).astype(float)
    cap = guarantee + rng.integers(0, 9, (teams, types))
    cap = np.where(rng.random((teams, types)) < 0.5, cap, np.inf)
    leased = (current >= 0) & (rng.random(jobs) < 0.4)
    return Drawn(program, ids, TeamsOf(team, leased, gpu_type, gpus, cap, guarantee))


@dataclass(frozen=True)
class Optimum:
    """What the exact program meets: the GPUs that guarantees lack, and the gain beside that."""

    short: float
    gain: float


def optimum(drawn: Drawn, guarantees: bool = True, few: int | None = None) -> Optimum | None:
    """Return the least that guarantees lack, and the most gain with no more lacking; None: nothing is feasible.

    With guarantees, no job under lease is worse off than in the solver's plan of caps alone, which is data here.
    """
    options, teams = drawn.options(), drawn.teams
    n = len(options.row)
    keep, required, terms = np.ones(n, bool), options.required.copy(), Terms.caps(options, teams.cap.ravel())
    if guarantees:
        before = options.plan_of(drawn.solved(guarantees=False, few=few).solution.choice)
        wants = teams.guarantee.ravel() > options.of_places(before)
        terms = asked(options, teams.guarantee.ravel(), wants, teams.cap.ravel())
        if terms.short(options, before).any():
            kept = teams.leased & (before >= 0)
            least = np.where(kept, options.gain[before], -np.inf)
            keep, required = options.gain >= least[options.row] - 1e-9, required | kept
        else:
            terms = Terms.caps(options, teams.cap.ravel())
    rows = np.zeros((options.rows, n))
    rows[options.row, np.arange(n)] = 1.0
    place = np.zeros((options.places + 1, n))
    place[options.place, np.arange(n)] = options.gpus
    cover = place.copy()
    cover[terms.elsewhere, np.arange(n)] += terms.covers
    floors = np.flatnonzero(terms.floor > 0)
    lacks = np.eye(len(floors))
    none = np.zeros((options.rows, len(floors)))
    pieces = [
        LinearConstraint(np.hstack([rows, none]), np.where(required, 1.0, 0.0), 1.0),
        LinearConstraint(
            np.hstack([options.usage.T, np.zeros((len(options.capacity), len(floors)))]), -np.inf, options.capacity
        ),
        LinearConstraint(np.hstack([place[:-1], np.zeros((options.places, len(floors)))]), -np.inf, terms.cap),
        LinearConstraint(np.hstack([cover[floors], lacks]), terms.floor[floors], np.inf),
    ]
    bounds = Bounds(0.0, np.concatenate([keep.astype(float), np.full(len(floors), np.inf)]))
    whole = np.concatenate([np.ones(n), np.zeros(len(floors))])
    tight = {"mip_rel_gap": 0.0}
    first = milp(
        np.concatenate([np.zeros(n), np.ones(len(floors))]),
        constraints=pieces,
        bounds=bounds,
        integrality=whole,
        options=tight,
    )
    if first.x is None:
        return None
    short = float(np.round(first.x[n:].sum(), 6)) if len(floors) else 0.0
    total = LinearConstraint(np.concatenate([np.zeros(n), np.ones(len(floors))])[None], -np.inf, short + 1e-9)
    second = milp(
        np.concatenate([-options.gain, np.zeros(len(floors))]),
        constraints=[*pieces, total] if len(floors) else pieces,
        bounds=bounds,
        integrality=whole,
        options=tight,
    )
    return None if second.x is None else Optimum(short, -float(second.fun))


@dataclass(frozen=True)
class Compared:
    """What is wrong with a solution beside the optimum. gap: how far its gain is below, relative."""

    over_cap: bool
    over_limits: bool
    missed: bool
    outside: bool
    gap: float
    bound_gap: float


def compare(drawn: Drawn, few: int | None = None) -> Compared:
    """Solve a round both ways. `few`: as in `Drawn.solved`."""
    found, exact, options = drawn.solved(few=few), optimum(drawn, few=few), drawn.options()
    assert exact is not None
    plan, t = options.plan_of(found.solution.choice), drawn.teams
    over = options.of_places(plan) > t.cap.ravel() + TOLERANCE
    limits = options.used(plan) > options.capacity + TOLERANCE
    same = found.short <= exact.short + TOLERANCE
    low, high, size = found.solution.objective, found.solution.bound, TOLERANCE * max(abs(exact.gain), 1.0)
    short = float(np.maximum(found.asked - found.covered, 0.0).sum())
    return Compared(
        bool(over.any()),
        bool(limits.any() or (options.required & (plan < 0)).any()),
        short > exact.short + TOLERANCE,
        same and not (low <= exact.gain + size and exact.gain <= high + size),
        (exact.gain - low) / max(abs(exact.gain), 1e-9),
        found.solution.gap,
    )
