"""UniSched: jobs with deadlines, jobs to be measured and best effort, by leases (Gao et al., IEEE TC 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .choosing.decided import QueueReasons, decisions_of
from .contract.explanation import Explanation, expectation, explained, job_of
from .contract.round import Plan, Round
from .contract.traits import PolicyTraits
from .leases.choice import Choice, choose, costs_now
from .leases.columns import Limits, Offer, limits_beside
from .leases.due import planned
from .leases.grid import lease_at
from .leases.kinds import MUST, Kinds, kinds_of
from .leases.measuring import joined, kept_apart, measured_apart, measured_on_fewer, resized, without
from .leases.offers import OfferOptions, best_effort_offers, deadline_offers
from .leases.options import UniSchedOptions
from .leases.serving import Serving
from .leases.telling import deadline_sentences, waiting_sentences
from .placing.cells import Shape, nodes_of
from .queueing import QueueingOptions, served
from .registry import register

OF_LEAST = 1e-3  # what a lease now brings more for all GPUs of the cluster, over the least worth of a job


@register("unisched")
class UniSchedPolicy:
    """Gives leases to jobs by what ending by when is worth, in cells of nodes."""

    Options = UniSchedOptions
    traits = PolicyTraits(
        fixed_sizes=True, uses_models=False, preempts=True, needs_expected=True, serves_deadlines=True
    )

    def __init__(self, options: UniSchedOptions | None = None) -> None:
        self.options = options or UniSchedOptions()
        self._mark: tuple[int, int] | None = None  # the two leases that the last plan was made in
        self._must: frozenset[str] = frozenset()  # who has the lease that the last program gave
        self._dropped: frozenset[str] = frozenset()  # whose deadline it gave up, so that more others hold
        self._later: dict[str, float] = {}  # until when it plans who is to meet a later deadline
        self._by: dict[str, float] = {}  # by when the last program has jobs end, on the clock of rounds
        self._costs: dict[str, float] = {}  # of their cells for the lease that began then, in worth
        self._prices: np.ndarray | None = None
        self._last: tuple[int, dict[str, Offer]] = (0, {})  # the lease of the last program, and what it chose
        self._measured: frozenset[str] = frozenset()  # who is measured on fewer GPUs than it may ask for

    def plan(self, round: Round) -> Plan:
        options, before = self.options, self._measured
        on_fewer, ids = measured_on_fewer(round), round.columns.ids
        self._measured = frozenset(ids[on_fewer].tolist())
        if round.sharing is None:
            round = resized(round, on_fewer, at_once=options.counts_for_nothing)
        measured = kinds_of(round).is_measured(options.best_effort_lease_s)
        if options.profiler == "static" and round.sharing is None:
            rest, kept = kept_apart(round.cluster, options.measuring_nodes)
            apart = measured_apart(replace(round, cluster=kept), measured)
            plan = joined(round, self._planned(without(round, rest, measured)), measured, apart)
        else:
            plan = self._planned(round)
        again_s = (lease_at(round.now, options.best_effort_lease_s) + 1) * options.best_effort_lease_s
        if on_fewer.any() and not options.counts_for_nothing:  # the second half of a lease is on two GPUs
            half_s = options.best_effort_lease_s / 2
            again_s = (lease_at(round.now, half_s) + 1) * half_s
        lost = before & frozenset(ids[~on_fewer].tolist()) if options.counts_for_nothing else frozenset()
        due_s = np.where(measured, np.nan, plan.figures["due_s"])  # nothing is told of these yet
        figures = {**plan.figures, "due_s": due_s, "measured": measured}
        deadlines = planned(round.columns, due_s, self._by)
        return replace(plan, figures=figures, deadlines=deadlines, again_s=again_s, lost=lost)

    def _planned(self, round: Round) -> Plan:
        """Return the plan of a round in which all jobs go by one order, or by one program."""
        options, lease_s = self.options, self.options.best_effort_lease_s
        kinds = kinds_of(
            round,
            upper_end=options.upper_end and not options.published,
            longest=options.iter_estimator == "max_iter",
        )
        kinds = kinds.without_deadlines(kinds.is_measured(lease_s))
        mark = lease_at(round.now, options.deadline_lease_s), lease_at(round.now, lease_s)
        before, self._mark = self._mark, mark
        anew = before is None or before[0] != mark[0]
        if options.published:
            others = before is None or before[1] != mark[1]
            return self._published(round, kinds, deadlines=anew, others=others)
        begins = before is not None and before[1] != mark[1]
        return self._in_order(round, kinds, before is None, anew, begins)

    def _choice(self, round: Round, kinds: Kinds, deadlines: Sequence[int], others: Sequence[int]) -> Choice:
        """Return who of the jobs at these positions has the lease that begins now."""
        options, self._by, self._costs = self.options, {}, {}
        offering = OfferOptions(
            options.deadline_lease_s, options.best_effort_lease_s, options.published, options.urgent_s,
            options.returned, options.placement == "joint", options.sr_aware,
        )  # fmt: skip
        offers = deadline_offers(round, kinds, deadlines, offering)
        if not options.published:
            limits = limits_beside(round, np.flatnonzero(kinds.pinned).tolist())
            return self._solved(round, deadlines, offers, limits)
        # Who can meet no deadline by whole leases is served as the others are.
        late = {i for i, own in zip(deadlines, offers, strict=True) if not own}
        first, rest = [i for i in deadlines if i not in late], [*sorted(late), *others]
        asked = {*first, *rest}
        limits = limits_beside(round, [i for i in np.flatnonzero(kinds.running).tolist() if i not in asked])
        offers, more = [own for own in offers if own], best_effort_offers(round, kinds, rest, offering)
        if options.selection == "joint":
            return self._solved(round, [*first, *rest], [*offers, *more], limits)
        chosen = self._solved(round, first, offers, limits)
        return chosen.and_then(self._solved(round, rest, more, limits.beside(chosen.used)))

    def _solved(
        self, round: Round, jobs: Sequence[int], offers: Sequence[Sequence[Offer]], limits: Limits
    ) -> Choice:
        """Return who of the jobs at these positions has the lease that begins now, of what they could have."""
        options = self.options
        if options.objective == "feasible":
            offers = [[replace(offer, worth=1.0) for offer in own] for own in offers]
        least = min((offer.worth for own in offers for offer in own), default=1.0)
        total = max(float(sum(round.cluster.capacity().values())), 1.0)
        sign = 1.0 if options.published else -1.0
        first = [sign * OF_LEAST * least * gpus / total for gpus in round.columns.gpus[list(jobs)].tolist()]
        ids, lease_s = round.columns.ids, options.deadline_lease_s
        lease = lease_at(round.now, lease_s)
        passed, before = lease - self._last[0], self._last[1]
        kept = {i: before[ids[i]] for i in jobs if ids[i] in before}
        last = {i: replace(one, within=one.within - passed) for i, one in kept.items()}
        found = choose(
            jobs, offers, limits, first, most_leases=options.most_leases, gap=options.gap,
            time_limit_s=options.time_limit_s, late=not options.published, prices=self._prices, last=last,
        )  # fmt: skip
        self._prices = found.prices
        chosen = {ids[i]: offer for i, offer in found.chosen.items()}
        self._last = lease, chosen if passed else {**before, **chosen}
        self._by |= {ids[i]: round.now + within * lease_s for i, within in found.within.items()}
        costs = costs_now(jobs, offers, limits, found.prices)
        self._costs |= {ids[i]: cost for i, cost in costs.items()}
        return found

    def _published(self, round: Round, kinds: Kinds, *, deadlines: bool, others: bool) -> Plan:
        """Return the plan as published: whoever has a lease keeps it, and the program gives all others."""
        asked_d = kinds.with_deadline if deadlines else []
        asked_o = kinds.without if deadlines or others else []
        choice = self._choice(round, kinds, asked_d, asked_o) if asked_d or asked_o else Choice(())
        asked = {*asked_d, *asked_o}
        stays = [i for i in np.flatnonzero(kinds.running).tolist() if i not in asked]
        gpus, apart = round.columns.gpus, _apart(round, choice)
        serving = Serving(round, apart)
        serving.keep(stays)
        waiting = serving.keep(choice.now)
        serving.pack(sorted(waiting, key=lambda i: (i in apart, -int(gpus[i]), i)), choice.now)
        order = np.array([*stays, *choice.now, *_rest(len(gpus), {*stays, *choice.now})], np.int64)
        leased = np.isin(np.arange(len(gpus)), [*stays, *choice.now])
        return self._made(round, kinds, serving, order, choice, leased)

    def _in_order(self, round: Round, kinds: Kinds, first: bool, anew: bool, begins: bool) -> Plan:
        """Return the plan in which who must run does, then jobs without a deadline, then those that may wait.

        Args:
            first: whether this process has planned nothing yet. Leases that began before go on to their end.
            anew: whether the program is solved.
            begins: whether a lease of best effort begins now.
        """
        choice, ids = Choice(()), round.columns.ids
        if anew:
            choice = self._choice(round, kinds, kinds.with_deadline, ())
            begun = kinds.running & np.isfinite(kinds.due_s) if first else np.zeros(len(ids), bool)
            self._must = frozenset([*ids[list(choice.now)].tolist(), *ids[begun].tolist()])
            dropped = set(kinds.with_deadline) - set(choice.within)
            self._dropped = frozenset(ids[list(dropped)].tolist())
            self._later = {ids[i]: self._by[ids[i]] for i in choice.later}
        if self._later:
            by_s = {i: self._later[id] for i, id in enumerate(ids.tolist()) if id in self._later}
            kinds = kinds.due_by({i: at_s for i, at_s in by_s.items() if np.isfinite(kinds.due_s[i])}, round.now)
        kinds = kinds.without_deadlines(_among(ids, self._dropped))
        must = _among(ids, self._must) & np.isfinite(kinds.due_s)
        must |= kinds.slack_s <= self.options.urgent_s + self.options.best_effort_lease_s
        tier, key = kinds.served_by(must, self.options.best_effort_lease_s, begins=begins)
        order = np.lexsort((round.columns.submitted_s, key, tier))
        if round.sharing is not None:
            plan = served(round, order, QueueingOptions(type_blind=self.options.type_blind), preempts=True)
            return replace(plan, figures=self._figures(round, kinds, must))
        apart = _apart(round, choice)
        spread = dict(apart)
        if self.options.placement == "joint":
            spread |= kinds.spread(round, self.options.least_speed)
        serving = Serving(round, spread)
        serving.serve(order, int((tier <= MUST).sum()), last=apart)
        return self._made(round, kinds, serving, order, choice, must)

    def _made(
        self, round: Round, kinds: Kinds, serving: Serving, order: np.ndarray, choice: Choice, leased: np.ndarray
    ) -> Plan:
        placements = dict(serving.ledger.held)
        reasons = QueueReasons(
            round, placements, order, np.ones(len(order), bool), len(round.cluster.gpu_types) > 1
        )
        return Plan(
            placements,
            objective=choice.objective,
            bound=choice.bound,
            decisions=decisions_of(round, placements, reasons.why),
            order=order,
            figures=self._figures(round, kinds, leased),
        )

    def _figures(self, round: Round, kinds: Kinds, leased: np.ndarray) -> dict[str, np.ndarray]:
        ids: list[str] = round.columns.ids.tolist()
        within_s = np.array([self._by.get(id, np.nan) - round.now for id in ids], float)
        costs = np.array([self._costs.get(id, 0.0) for id in ids], float)
        leased = (leased & np.isfinite(kinds.due_s)).astype(float)
        own = {"slack_s": kinds.slack_s, "due_s": kinds.due_s, "planned_within_s": within_s}
        return {**own, "cells_cost": costs, "has_lease": leased}

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its deadline, its slack and when it is planned to end."""
        i, view = job_of(job, round), round.jobs[job_of(job, round)]
        told = {name: float(column[i]) for name, column in plan.figures.items()}
        standing = deadline_sentences(told, view, round.now, self.options.deadline_lease_s)
        standing += waiting_sentences(job, round, plan)
        length, facts = expectation(view, "it is measured first")
        own = {"due_in_s": told.pop("due_s") - round.now, **told}
        return explained(job, round, plan, [*standing, length], {**own, **facts})


def _apart(round: Round, choice: Choice) -> dict[int, Shape]:
    """Return the shapes of jobs that are planned on more nodes than they need, by position."""
    largest = max(round.cluster.largest_nodes.values(), default=1)
    gpus = round.columns.gpus
    return {i: shape for i, shape in choice.shape.items() if nodes_of(shape) > -(-int(gpus[i]) // largest)}


def _among(ids: np.ndarray, some: frozenset[str]) -> np.ndarray:
    """Return (jobs,) whether each is one of some."""
    return np.array([id in some for id in ids.tolist()], bool)


def _rest(count: int, taken: set[int]) -> list[int]:
    return [i for i in range(count) if i not in taken]
