"""Which jobs have the lease that begins now: by the program of leases, or by a proof that it is not needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...optimizer.leases.problem import NOTHING, LeasePlan, LeaseProblem, growing
from ...optimizer.leases.solver import solve
from ..placing.cells import Shape
from .columns import Limits, Offer, program


@dataclass(frozen=True, eq=False)
class Choice:
    """Positions in the round of jobs that have the lease that begins now, and what is known of the plan.

    now: in the order in which they were given. shape: by position, of those.
    chosen: by position, the option of each job that is planned to run, now or later.
    later: positions of those that are planned for a deadline that is worth less than another one they could meet.
    used: (limits,) what those that have the lease now take; None: it was not worked out.
    """

    now: Sequence[int]
    shape: Mapping[int, Shape] = field(default_factory=dict)
    chosen: Mapping[int, Offer] = field(default_factory=dict)
    later: frozenset[int] = frozenset()
    objective: float = 0.0
    bound: float = 0.0
    prices: np.ndarray | None = None
    used: np.ndarray | None = None

    @property
    def within(self) -> dict[int, int]:
        """By position, the lease before which a job is planned to have ended; also of jobs that run later."""
        return {job: offer.within for job, offer in self.chosen.items()}

    def and_then(self, other: Choice) -> Choice:
        """Return this choice and one that was made from what it leaves."""
        return replace(
            self, now=[*self.now, *other.now], shape={**self.shape, **other.shape},
            chosen={**self.chosen, **other.chosen}, later=self.later | other.later,
            objective=self.objective + other.objective, bound=self.bound + other.bound,
        )  # fmt: skip


def choose(
    jobs: Sequence[int],
    offers: Sequence[Sequence[Offer]],
    limits: Limits,
    first: Sequence[float],
    *,
    most_leases: int,
    gap: float,
    time_limit_s: float,
    late: bool = False,
    prices: np.ndarray | None = None,
    last: Mapping[int, Offer] | None = None,
) -> Choice:
    """Return who has the lease that begins now.

    Args:
        jobs: positions in the round; offers: the options of each.
        first: what each brings more for that lease.
        most_leases: how far ahead is planned. A deadline beyond that counts as there.
        late: whether every job may wait as long as its deadline allows. Where all can, no program is solved.
        prices: of the last plan, to begin with.
        last: by position, what the last plan chose, counted from now. It is kept where time is short.
    """
    flat = [offer for own in offers for offer in own]
    if not flat:
        return Choice(())
    horizon = min(max(offer.within for offer in flat), most_leases)
    if late and (found := _all_late(jobs, offers, limits, horizon)) is not None:
        return found
    length = growing(horizon) if horizon > 1 else np.ones(1, np.int64)
    problem = program(offers, limits, length, first)
    assert problem is not None
    fits = prices is not None and prices.shape == problem.capacity.shape
    begin = _kept(jobs, offers, last or {})
    plan = solve(problem, gap=gap, time_limit_s=time_limit_s, prices=prices if fits else None, last=begin)
    return _choice(jobs, flat, problem, plan)


def costs_now(
    jobs: Sequence[int], offers: Sequence[Sequence[Offer]], limits: Limits, prices: np.ndarray | None
) -> dict[int, float]:
    """Return what the cheapest cells of each job cost for the lease that begins now, in worth, by position.

    {}: all leases fit, so that cells cost nothing.
    """
    if prices is None:
        return {}
    found: dict[int, float] = {}
    for job, own in zip(jobs, offers, strict=True):
        ways = {(offer.gpu_type, offer.shape): offer for offer in own}.values()
        if ways:
            found[job] = min(float(limits.usage(offer) @ prices[:, 0]) for offer in ways)
    return found


def _choice(jobs: Sequence[int], flat: Sequence[Offer], problem: LeaseProblem, plan: LeasePlan) -> Choice:
    now, shape, taken = [], dict[int, Shape](), dict[int, Offer]()
    most = np.zeros(problem.rows)
    np.maximum.at(most, problem.row, problem.worth)
    later: set[int] = set()
    for row in np.flatnonzero(plan.option >= 0).tolist():
        offer, job = flat[int(plan.option[row])], jobs[row]
        taken[job] = offer
        if offer.worth < most[row]:
            later.add(job)
        if plan.taken[row, 0]:
            now.append(job)
            shape[job] = offer.shape
    chosen = np.flatnonzero((plan.option >= 0) & (plan.taken[:, 0] > 0))
    used = problem.usage[plan.option[chosen]].sum(axis=0)
    return Choice(now, shape, taken, frozenset(later), plan.value, plan.bound, plan.prices, used)


def _all_late(
    jobs: Sequence[int], offers: Sequence[Sequence[Offer]], limits: Limits, horizon: int
) -> Choice | None:
    """Return who runs now if every job takes the last leases before its first deadline; None: they do not fit.

    Where they fit, no plan brings more: every job has what is worth most to it. Leases beyond the horizon fit
    anyhow, as far as is looked.
    """
    used = np.zeros((horizon + 1, len(limits.capacity)))
    now, shape, taken, worth = [], dict[int, Shape](), dict[int, Offer](), 0.0
    for job, own in zip(jobs, offers, strict=True):
        if not own:
            continue
        best = own[0]
        usage = limits.usage(best)
        begins = best.within - best.leases
        worth += best.worth
        taken[job] = best
        if begins <= 0:
            now.append(job)
            shape[job] = best.shape
        if begins < horizon:
            used[max(begins, 0)] += usage
            used[min(best.within, horizon)] -= usage
    if (np.cumsum(used[:-1], axis=0) > limits.capacity + 1e-9).any():
        return None
    return Choice(now, shape, taken, frozenset(), worth, worth)


def _kept(jobs: Sequence[int], offers: Sequence[Sequence[Offer]], last: Mapping[int, Offer]) -> np.ndarray | None:
    """Return (jobs,) the option of each that the last plan chose, as a position among all options.

    It is NOTHING for a job of which the last plan chose none that is there now. None: for all jobs.
    """
    found, begin = np.full(len(jobs), NOTHING), 0
    for row, (job, own) in enumerate(zip(jobs, offers, strict=True)):
        if (before := last.get(job)) is not None:
            same = [at for at, one in enumerate(own) if before.is_like(one)]
            if same:
                found[row] = begin + min(same, key=lambda at: abs(own[at].within - before.within))
        begin += len(own)
    return found if (found >= 0).any() else None
