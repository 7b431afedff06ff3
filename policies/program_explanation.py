"""Explains a job of a round that was one program: its options, their gains, and what speaks against each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..core.decisions import Refused, Waiting
from ..core.doors import Door
from ..core.job import JobSpec
from ..core.wording import n_gpus
from ..estimators.goodput import BatchChoice, JobModel, best_batch
from .choosing.decided import what_it_takes
from .choosing.eligibility import Eligibility, eligibility, has_room
from .contract.configuration import Configuration, ConfigurationSet
from .contract.explanation import Explanation, explained, headline, job_of, notes_on, team_facts, team_sentences
from .contract.round import JobView, Plan, Round
from .placing.ledger import is_pinned

MOST_BETTER = 5  # most better options that are shown
ALIKE = 1.005  # a goodput up to this factor above another is shown as no better


@dataclass(frozen=True)
class Option:
    """One configuration from the job's point of view.

    goodput: initial-batch-size samples/s.
    relative: goodput over that of what the job has after this round; None if it has nothing.
    value: what the policy compared: normalised goodput with the restart factor.
    gain: what it adds to the objective over leaving the job out; None if it was no option.
    cost: what it is worth to other jobs, at this round's prices.
    verdict: why the job does or does not have it.
    batch: the best batch there; None if nobody can tell.
    """

    configuration: str
    gpu_type: str
    gpus: int
    nodes: int
    goodput: float
    relative: float | None
    value: float
    gain: float | None
    cost: float
    verdict: str
    batch: BatchChoice | None = None


@dataclass(frozen=True)
class Rules:
    """What a policy's own rules say of one job.

    first, reach: replicas that a job may start with, and the factor by which it may grow, as in `eligibility`.
    too_far: why a larger configuration is out of reach.
    move: what a move costs the job, in one sentence.
    unpaid: why a better configuration than the one it keeps is not worth a move.
    facts: what the sentences state.
    gpu_price: units of the objective that a GPU must earn; the gains of options are what is left beyond it.
    """

    first: int
    reach: float
    too_far: str
    move: str | None
    unpaid: str
    facts: Mapping[str, Any]
    gpu_price: float = 0.0


def _counts_samples(spec: JobSpec) -> bool:
    """Return whether goodput is in samples that the user knows; a command may tell only a part of all."""
    return spec.door is Door.NATIVE or spec.training.initial_batch_size is not None


def _line(option: Option, samples: bool) -> str:
    if option.goodput <= 0:
        return f"  {option.gpu_type}: {option.verdict}"
    times = (
        f"{option.relative:.2f} x; " if option.relative else f"{option.goodput:.4g} samples/s; " if samples else ""
    )
    return f"  {option.configuration}: {times}{option.verdict}"


def explain_program(job_id: str, round: Round, plan: Plan, rules: Callable[[JobView], Rules]) -> Explanation:
    """Explain one job's part of a round that was one program.

    Raises:
        KeyError: if the round has no such job.
    """
    job = round.jobs[job_of(job_id, round)]
    configurations = plan.configurations
    assert configurations is not None  # every plan of a program has them
    found, own_rules = explained(job_id, round, plan), rules(job)
    options = _options(job, round, plan, configurations, own_rules)
    after = plan.placements.get(job_id)
    chosen = configurations.index(after)
    model = job.model
    initial = model.limits.initial_batch_size if isinstance(model, JobModel) else None
    samples = _counts_samples(job.spec)
    detail = "" if chosen < 0 or not samples else _rate(options[chosen], initial)
    lines = [headline(job, after, detail)]
    if isinstance(found.decision, Refused):
        lines.append(found.decision.reason)
    elif isinstance(found.decision, Waiting):
        lines.append(found.decision.detail)
    # Nothing is measured of a program of a fixed size, so that goodputs would say nothing.
    keeps = after is not None and job.spec.door is Door.PLAIN and is_pinned(job, round.cluster)
    if keeps:
        lines.append("It keeps these GPUs until it ends; with restartable: true in its file it could be moved.")
    elif own_rules.move is not None:
        lines.append(own_rules.move)
    if own_rules.gpu_price and not keeps:
        lines.append(f"A GPU that adds less than {own_rules.gpu_price:g} to the objective stays free.")
    priced = [f"{t} {price:.3g}" for t, price in plan.prices.items()]
    if priced:
        lines.append("Price of one GPU this round, in units of the objective: " + ", ".join(priced) + ".")
    lines += team_sentences(job_id, round, plan)
    least = ALIKE * (options[chosen].goodput if chosen >= 0 else 0.0)
    better = sorted((o for o in options if o.goodput > least), key=lambda o: -o.goodput)
    if better and not keeps:
        lines.append(f"GPUs of higher goodput {'than it has' if chosen >= 0 else 'if it had them'}:")
        lines += [_line(option, samples) for option in better[:MOST_BETTER]]
    elif after is not None and chosen >= 0 and not keeps:
        lines.append(f"No configuration of {round.cluster.called} would give it a higher goodput.")
    named_types = {o.gpu_type for o in better} | ({options[chosen].gpu_type} if chosen >= 0 else set())
    others = [o for o in options if o.gpu_type not in named_types and not keeps]
    if others:
        lines.append("On other GPU types, at best:")
        types = sorted({o.gpu_type for o in others})
        best = (max((o for o in others if o.gpu_type == t), key=lambda o: o.goodput) for t in types)
        lines += [_line(option, samples) for option in best]
    facts = {
        **({} if round.sharing is None else team_facts(job_id, round, plan)),
        **own_rules.facts,
        **({"gpu_price": own_rules.gpu_price} if own_rules.gpu_price else {}),
        "prices": dict(plan.prices),
        "options": [asdict(option) for option in options],
        "notes": notes_on(job_id, plan),
        "initial_batch_size": initial,
    }
    return replace(found, sentences=(*lines, *(f"note: {note}" for note in notes_on(job_id, plan))), facts=facts)


def _rate(option: Option, initial: int | None) -> str:
    if option.goodput <= 0:
        return ""
    rate, batch = f", goodput {option.goodput:.4g} samples/s", option.batch
    if batch is None or batch.batch_size == initial:
        return rate
    return (
        f"{rate} with batches of {batch.batch_size}: {batch.throughput:.4g} samples/s, each worth "
        f"{batch.efficiency:.2f} of one in its initial batches of {initial}"
    )


def _options(
    job: JobView, round: Round, plan: Plan, configurations: ConfigurationSet, rules: Rules
) -> tuple[Option, ...]:
    goodput = replace(round, jobs=(job,)).goodput(configurations)[0]
    may = eligibility([job], configurations, goodput[None, :], rules.first, rules.reach)
    nothing = np.zeros(len(configurations))
    gains = plan.gains.get(job.id, np.full(len(configurations), -np.inf))
    values = plan.rows.get(job.id, nothing)
    chosen = configurations.index(plan.placements.get(job.id))
    cost = plan.costs.get(job.id, nothing)
    reasons = _Reasons(job, configurations, goodput, may, gains, cost, chosen, rules)
    got = goodput[chosen] if chosen >= 0 else 0.0
    return tuple(
        Option(
            configuration=str(c),
            gpu_type=c.gpu_type,
            gpus=c.gpus,
            nodes=c.nodes,
            goodput=float(goodput[i]),
            relative=float(goodput[i] / got) if got > 0 else None,
            value=float(values[i]),
            gain=float(gains[i]) if np.isfinite(gains[i]) else None,
            cost=float(cost[i]),
            verdict=reasons.of(i),
            batch=_best_batch(job, c) if goodput[i] > 0 else None,
        )
        for i, c in enumerate(configurations.items)
    )


def _best_batch(job: JobView, configuration: Configuration) -> BatchChoice | None:
    per_replica = job.spec.gpus_per_replica(configuration.gpu_type)
    if not isinstance(job.model, JobModel) or per_replica is None:
        return None
    replicas = configuration.gpus // per_replica
    return best_batch(job.model, configuration.gpu_type, configuration.nodes, replicas) if replicas else None


@dataclass(frozen=True)
class _Reasons:
    """Tells for each configuration why the job does or does not have it."""

    job: JobView
    configurations: ConfigurationSet
    goodput: np.ndarray
    may: Eligibility
    gains: np.ndarray
    cost: np.ndarray
    chosen: int
    rules: Rules

    @property
    def _gpus_now(self) -> int:
        return self.configurations[self.chosen].gpus

    def of(self, i: int) -> str:
        if i == self.chosen:
            return "this is what it has"
        return self._never(i) or self._not_now(i) or self._not_worth_it(i)

    def _never(self, i: int) -> str | None:
        """Return why the job may never have it: a limit of its user or of its model."""
        c, spec = self.configurations[i], self.job.spec
        if not self.may.allowed[0, i]:
            per_replica = spec.gpus_per_replica(c.gpu_type)
            if per_replica is None:
                return f"the job does not run on {c.gpu_type}"
            if spec.resources.gpus is not None:
                return f"the job is rigid: {n_gpus(spec.resources.gpus)}"
            if c.gpus > spec.resources.max_gpus:
                return f"more than its max_gpus {spec.resources.max_gpus}"
            if c.gpus < spec.resources.min_gpus:
                return f"less than its min_gpus {spec.resources.min_gpus}"
            if not spec.allows(c.gpu_type, c.gpus):
                return (
                    f"not one of its sizes on {c.gpu_type}: {', '.join(map(str, spec.sizes_on(c.gpu_type) or []))}"
                )
            if not c.holds_replicas(per_replica):
                return f"not a number of whole replicas of {n_gpus(per_replica)}"
            if not has_room(spec, self.configurations)[i]:
                return "no idle nodes have the CPUs and the memory for that"
            return "a count made for other jobs"
        if self.job.model is not None and self.goodput[i] <= 0:
            return "no batch size within its limits fits there"
        return None

    def _not_now(self, i: int) -> str | None:
        """Return why the job may not have it in this round."""
        reserved = self.job.spec.reservation
        if np.isfinite(self.gains[i]):
            return None
        if not self.job.spec.preemptible and self.job.placement is not None:
            return "the job is not preemptible and keeps what it has"
        if not self.may.within_growth[0, i]:
            if self.job.model is None:
                return "nothing is measured yet, so it starts with the smallest"
            return self.rules.too_far
        if reserved is not None:
            return f"its reservation is {reserved.gpus} {reserved.gpu_type}"
        return "no option this round"

    def _not_worth_it(self, i: int) -> str:
        """Return why the objective and the prices speak against it."""
        now = self.gains[self.chosen] if self.chosen >= 0 else 0.0
        paid = self.cost[self.chosen] if self.chosen >= 0 else 0.0
        more, dearer = self.gains[i] - now, self.cost[i] - paid
        if more <= 0:
            if self.chosen < 0:
                return "worth no more to the objective than leaving the job out"
            better = self.goodput[i] > ALIKE * self.goodput[self.chosen]
            price = self.rules.gpu_price
            if better and price and more > -price * (self.configurations[i].gpus - self._gpus_now):
                return f"better, but not worth {price:g} for each GPU more"
            return self.rules.unpaid if better else "no better for it"
        if dearer >= more:
            takes = what_it_takes(self.job.spec)
            return f"worth {more:.3g} more to it, but {takes} worth {dearer:.3g} more to other jobs"
        return f"worth {more:.3g} more to it, but no plan in which it has them was worth more in all"
