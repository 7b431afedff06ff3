"""UniSched: jobs with deadlines, jobs to be measured and best effort, by leases (Gao et al., IEEE TC 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from .choosing.decided import QueueReasons, decisions_of
from .contract.explanation import Explanation, expectation, explained, job_of
from .contract.round import Plan, Round
from .contract.traits import PolicyTraits
from .leases.choice import Choice, choose
from .leases.columns import limits_beside
from .leases.grid import EXACT, lease_at
from .leases.kinds import MUST, Kinds, kinds_of
from .leases.offers import OfferOptions, best_effort_offers, deadline_offers
from .leases.serving import Serving
from .placing.cells import Shape, nodes_of
from .queueing import QueueingOptions, served
from .registry import register

OF_LEAST = 1e-3  # what a lease now brings more for all GPUs of the cluster, over the least worth of a job


class UniSchedOptions(BaseModel):
    """What an operator may set.

    published: as the paper has it: one program for all, nothing starts between two leases.
    best_effort_lease_s, deadline_lease_s: lengths of leases; the second is a multiple of the first.
    urgent_s: beyond the paper: a deadline is planned for so much before its moment.
    returned: what is left of a cell goes to others; placement: joint, or consolidation on fewest nodes.
    sr_aware: suspensions are counted in. objective: reward, or any feasible plan.
    least_speed: beyond the paper: a job lies apart where it is that fast, over its speed together.
    type_blind: as for policies with queues.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    published: bool = False
    best_effort_lease_s: float = Field(default=300.0, gt=0)
    deadline_lease_s: float = Field(default=600.0, gt=0)
    urgent_s: float = Field(default=120.0, ge=0)
    returned: bool = True
    placement: Literal["joint", "consolidation"] = "joint"
    sr_aware: bool = True
    objective: Literal["reward", "feasible"] = "reward"
    most_leases: int = Field(default=288, ge=1)
    gap: float = Field(default=1e-5, ge=0)
    time_limit_s: float = Field(default=0.5, gt=0)
    least_speed: float = Field(default=0.9, gt=0, le=1)
    type_blind: bool = False

    @model_validator(mode="after")
    def _on_one_grid(self) -> UniSchedOptions:
        times = self.deadline_lease_s / self.best_effort_lease_s
        if times < 1 or abs(times - round(times)) > EXACT:
            raise ValueError(
                f"deadline_lease_s: {self.deadline_lease_s:g} is no multiple of best_effort_lease_s "
                f"{self.best_effort_lease_s:g}; a multiple is accepted, so that leases end together"
            )
        if self.published and "urgent_s" in self.model_fields_set:
            raise ValueError("urgent_s: goes without published, which plans for the deadline itself")
        return self


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
        self._prices: np.ndarray | None = None

    def plan(self, round: Round) -> Plan:
        options, kinds = self.options, kinds_of(round)
        mark = lease_at(round.now, options.deadline_lease_s), lease_at(round.now, options.best_effort_lease_s)
        before, self._mark = self._mark, mark
        if options.published:
            deadlines, others = before is None or before[0] != mark[0], before is None or before[1] != mark[1]
            plan = self._published(round, kinds, deadlines=deadlines, others=others)
        else:
            plan = self._in_order(round, kinds, anew=before is None or before[0] != mark[0])
        return replace(plan, again_s=(mark[1] + 1) * options.best_effort_lease_s)

    def _choice(self, round: Round, kinds: Kinds, deadlines: Sequence[int], others: Sequence[int]) -> Choice:
        """Return who of the jobs at these positions has the lease that begins now."""
        options = self.options
        offering = OfferOptions(
            options.deadline_lease_s, options.best_effort_lease_s, options.published, options.urgent_s,
            options.returned, options.placement == "joint", options.sr_aware,
        )  # fmt: skip
        offers = deadline_offers(round, kinds, deadlines, offering)
        if options.published:  # who can meet no deadline by whole leases is served as the others are
            late = [i for i, own in zip(deadlines, offers, strict=True) if not own]
            offers = [own for own in offers if own] + best_effort_offers(round, kinds, [*late, *others], offering)
            jobs = [*(i for i in deadlines if i not in set(late)), *late, *others]
        else:
            jobs = list(deadlines)
        asked = set(jobs)
        stays = [i for i in np.flatnonzero(kinds.running).tolist() if i not in asked] if options.published else []
        pinned = np.flatnonzero(kinds.pinned).tolist()
        limits = limits_beside(round, stays if options.published else pinned)
        if options.objective == "feasible":
            offers = [[replace(offer, worth=1.0) for offer in own] for own in offers]
        least = min((offer.worth for own in offers for offer in own), default=1.0)
        total = max(float(sum(round.cluster.capacity().values())), 1.0)
        sign = 1.0 if options.published else -1.0
        first = [sign * OF_LEAST * least * gpus / total for gpus in round.columns.gpus[jobs].tolist()]
        found = choose(
            jobs, offers, limits, first, most_leases=options.most_leases, gap=options.gap,
            time_limit_s=options.time_limit_s, late=not options.published, prices=self._prices,
        )  # fmt: skip
        self._prices = found.prices
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
        return self._made(round, kinds, serving, order, choice)

    def _in_order(self, round: Round, kinds: Kinds, *, anew: bool) -> Plan:
        """Return the plan in which who must run does, then jobs without a deadline, then those that may wait."""
        choice, ids = Choice(()), round.columns.ids
        if anew:
            choice = self._choice(round, kinds, kinds.with_deadline, ())
            self._must = frozenset(ids[list(choice.now)].tolist())
            dropped = set(kinds.with_deadline) - set(choice.within)
            self._dropped = frozenset(ids[list(dropped)].tolist())
            lease_s = self.options.deadline_lease_s
            self._later = {ids[i]: round.now + choice.within[i] * lease_s for i in choice.later}
        if self._later:
            by_s = {i: self._later[id] for i, id in enumerate(ids.tolist()) if id in self._later}
            kinds = kinds.due_by({i: at_s for i, at_s in by_s.items() if np.isfinite(kinds.due_s[i])}, round.now)
        kinds = kinds.without_deadlines(_among(ids, self._dropped))
        must = _among(ids, self._must) & np.isfinite(kinds.due_s)
        must |= kinds.slack_s <= self.options.urgent_s + self.options.best_effort_lease_s
        tier, key = kinds.served_by(must, self.options.best_effort_lease_s)
        order = np.lexsort((round.columns.submitted_s, key, tier))
        if round.sharing is not None:
            plan = served(round, order, QueueingOptions(type_blind=self.options.type_blind), preempts=True)
            return replace(plan, figures=self._figures(kinds, choice))
        apart = _apart(round, choice)
        spread = dict(apart)
        if self.options.placement == "joint":
            spread |= kinds.spread(round, self.options.least_speed)
        serving = Serving(round, spread)
        serving.serve(order, int((tier <= MUST).sum()), last=apart)
        return self._made(round, kinds, serving, order, choice)

    def _made(self, round: Round, kinds: Kinds, serving: Serving, order: np.ndarray, choice: Choice) -> Plan:
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
            figures=self._figures(kinds, choice),
        )

    def _figures(self, kinds: Kinds, choice: Choice) -> dict[str, np.ndarray]:
        planned = np.full(len(kinds.due_s), np.nan)
        for i, within in choice.within.items():
            planned[i] = within * self.options.deadline_lease_s
        return {"slack_s": kinds.slack_s, "due_s": kinds.due_s, "planned_within_s": planned}

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its deadline, its slack and when it is planned to end."""
        i = job_of(job, round)
        names = ("slack_s", "due_s", "planned_within_s")
        slack_s, due_s, within_s = (float(plan.figures[name][i]) for name in names)
        view = round.jobs[i]
        standing = ["It has no deadline: it is served after jobs that must run now, by the GPU-time that is left."]
        if np.isfinite(due_s):
            left_s, waits_s = due_s - round.now, max(slack_s, 0.0)
            standing = [f"Its deadline is in {left_s:.0f} s, and it could wait for {waits_s:.0f} s."]
        elif view.rewards is not None:
            standing = ["It is best effort now: it can meet no deadline, or others need the GPUs for theirs."]
        if not np.isnan(within_s):
            standing.append(f"It is planned to have ended within {within_s:.0f} s.")
        length, facts = expectation(view, "it is measured first")
        own = {"slack_s": slack_s, "due_in_s": due_s - round.now, "planned_within_s": within_s}
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
