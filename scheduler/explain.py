"""Why a job has what it has: its goodput everywhere, what it would gain elsewhere, and what stands in the way."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..core.placement import Placement
from ..estimators.goodput import BatchChoice, JobModel, best_batch
from ..policies.choosing.eligibility import Eligibility, eligibility
from ..policies.contract.configuration import Configuration, ConfigurationSet
from ..policies.contract.round import JobView, Plan, Round
from ..policies.sia import restart_factors

MOST_BETTER = 5  # options that are told to a person
ALIKE = 1.005  # goodputs up to so many times another are the same to a person


@dataclass(frozen=True)
class Option:
    """One configuration from the job's point of view.

    goodput: initial-batch-size samples/s. relative: goodput over that of what the job has after this round, None
    where it has nothing. value: what the policy compared, normalised goodput with the restart factor. gain:
    what it adds to the objective over leaving the job out; cost: its GPUs at this round's prices.
    verdict: why the job does or does not have it. batch: the best batch there, None where nobody can tell.
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
class Explanation:
    """What `coadapt explain JOB` shows. `options` has every configuration."""

    job_id: str
    name: str
    before: str | None
    chosen: str | None
    restart_factor: float | None
    prices: dict[str, float]
    options: tuple[Option, ...]
    notes: tuple[str, ...]
    initial_batch_size: int | None = None

    @property
    def better(self) -> tuple[Option, ...]:
        """Configurations with a higher goodput than the job gets, by more than a person would see; best first."""
        least = ALIKE * next((o.goodput for o in self.options if o.configuration == self.chosen), 0.0)
        return tuple(sorted((o for o in self.options if o.goodput > least), key=lambda o: -o.goodput))

    @property
    def elsewhere(self) -> tuple[Option, ...]:
        """The best configuration of each GPU type that neither is chosen nor has a better one, by type."""
        named = {o.gpu_type for o in self.options if o.configuration == self.chosen}
        named |= {o.gpu_type for o in self.better}
        others = [o for o in self.options if o.gpu_type not in named]
        return tuple(
            max((o for o in others if o.gpu_type == gpu_type), key=lambda o: o.goodput)
            for gpu_type in sorted({o.gpu_type for o in others})
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For a person: what was decided, what it costs, and what stops the job from having more."""
        found = [self._decision()]
        if self.restart_factor is not None and self.before is not None:
            found.append(
                f"A move pauses training, so other GPUs count {self.restart_factor:.2f} of their goodput."
            )
        priced = [f"{t} {price:.3g}" for t, price in self.prices.items()]
        if priced:
            found.append("Price of one GPU this round, in units of the objective: " + ", ".join(priced) + ".")
        if self.better:
            had = "than it has" if self.chosen is not None else "if it had them"
            found.append(f"GPUs of higher goodput {had}:")
            found += [_line(option) for option in self.better[:MOST_BETTER]]
        elif self.chosen is not None:
            found.append("No configuration of this cluster would give it a higher goodput.")
        if self.elsewhere:
            found.append("On other GPU types, at best:")
            found += [_line(option) for option in self.elsewhere]
        return [*found, *(f"note: {note}" for note in self.notes)]

    def _decision(self) -> str:
        if self.chosen is None:
            return f"{self.name} gets nothing this round" + (f"; it had {self.before}." if self.before else ".")
        rate = next((self._rate(o) for o in self.options if o.configuration == self.chosen), "")
        if self.before is None:
            return f"{self.name} starts on {self.chosen}{rate}."
        if self.before == self.chosen:
            return f"{self.name} stays on {self.chosen}{rate}."
        return f"{self.name} moves from {self.before} to {self.chosen}{rate}."

    def _rate(self, option: Option) -> str:
        if option.goodput <= 0:
            return ""
        rate = f", goodput {option.goodput:.4g} samples/s"
        batch = option.batch
        if batch is None or batch.batch_size == self.initial_batch_size:
            return rate
        return (
            f"{rate} with batches of {batch.batch_size}: {batch.throughput:.4g} samples/s, each worth "
            f"{batch.efficiency:.2f} of one in its initial batches of {self.initial_batch_size}"
        )


def _line(option: Option) -> str:
    if option.goodput <= 0:
        return f"  {option.gpu_type}: {option.verdict}"
    times = f"{option.relative:.2f} x" if option.relative else f"{option.goodput:.4g} samples/s"
    return f"  {option.configuration}: {times}; {option.verdict}"


def explain(job_id: str, round: Round, plan: Plan) -> Explanation:
    """Explain one job's part of a plan.

    Raises:
        KeyError: if the round has no such job.
        ValueError: if the plan has no configurations (its policy does not choose any).
    """
    job = next((job for job in round.jobs if job.id == job_id), None)
    if job is None:
        raise KeyError(f"job: {job_id!r} is not in this round")
    if plan.configurations is None:
        raise ValueError(f"job {job_id}: the policy of this plan does not choose among configurations")
    configurations = plan.configurations
    goodput = replace(round, jobs=(job,)).goodput(configurations)[0]
    may = eligibility([job], configurations, goodput[None, :])
    nothing = np.zeros(len(configurations))
    gains = plan.gains.get(job_id, np.full(len(configurations), -np.inf))
    values = plan.rows.get(job_id, nothing)
    chosen = configurations.index(plan.placements.get(job_id))
    arrays = configurations.arrays
    price = np.array([plan.prices.get(t, 0.0) for t in arrays.gpu_types])
    cost = price[arrays.type_index] * arrays.gpus if len(configurations) else nothing
    reasons = _Reasons(job, configurations, goodput, may, gains, cost, chosen)
    got = goodput[chosen] if chosen >= 0 else 0.0
    options = tuple(
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
    return Explanation(
        job_id=job_id,
        name=job.spec.name,
        before=_name(job.placement, configurations),
        chosen=_name(plan.placements.get(job_id), configurations),
        restart_factor=float(restart_factors([job])[0]) if job.placement is not None else None,
        prices=dict(plan.prices),
        options=options,
        notes=tuple(
            note for note in plan.notes if not note.startswith("job ") or note.startswith(f"job {job_id}:")
        ),
        initial_batch_size=job.model.limits.initial_batch_size if isinstance(job.model, JobModel) else None,
    )


def _best_batch(job: JobView, configuration: Configuration) -> BatchChoice | None:
    per_replica = job.spec.gpus_per_replica(configuration.gpu_type)
    if not isinstance(job.model, JobModel) or per_replica is None:
        return None
    replicas = configuration.gpus // per_replica
    return best_batch(job.model, configuration.gpu_type, configuration.nodes, replicas) if replicas else None


@dataclass(frozen=True)
class _Reasons:
    """One sentence per configuration."""

    job: JobView
    configurations: ConfigurationSet
    goodput: np.ndarray
    may: Eligibility
    gains: np.ndarray
    cost: np.ndarray
    chosen: int

    def of(self, i: int) -> str:
        if i == self.chosen:
            return "this is what it has"
        return self._never(i) or self._not_now(i) or self._not_worth_it(i)

    def _never(self, i: int) -> str | None:
        """The user's own limits, and the model's."""
        c, spec = self.configurations[i], self.job.spec
        if not self.may.allowed[0, i]:
            per_replica = spec.gpus_per_replica(c.gpu_type)
            if per_replica is None:
                return f"the job does not run on {c.gpu_type}"
            if spec.resources.gpus is not None:
                return f"the job is rigid: {spec.resources.gpus} GPUs"
            if c.gpus > spec.resources.max_gpus:
                return f"more than its max_gpus {spec.resources.max_gpus}"
            if c.gpus < spec.resources.min_gpus:
                return f"less than its min_gpus {spec.resources.min_gpus}"
            if not c.holds_replicas(per_replica):
                return f"not a number of whole replicas of {per_replica} GPUs"
            return "a count made for other jobs"
        if self.job.model is not None and self.goodput[i] <= 0:
            return "no batch size within its limits fits there"
        return None

    def _not_now(self, i: int) -> str | None:
        """Constraints of this round."""
        reserved = self.job.spec.reservation
        if np.isfinite(self.gains[i]):
            return None
        if not self.job.spec.preemptible and self.job.placement is not None:
            return "the job is not preemptible and keeps what it has"
        if not self.may.reachable[0, i]:
            if self.job.model is None:
                return "nothing is measured yet, so it starts with the smallest"
            return "more than twice the most it has run on so far; a job at most doubles per round"
        if reserved is not None:
            return f"its reservation is {reserved.gpus} {reserved.gpu_type}"
        return "no option this round"

    def _not_worth_it(self, i: int) -> str:
        """What the objective and the prices say."""
        now = self.gains[self.chosen] if self.chosen >= 0 else 0.0
        paid = self.cost[self.chosen] if self.chosen >= 0 else 0.0
        more, dearer = self.gains[i] - now, self.cost[i] - paid
        if more <= 0:
            better = self.chosen < 0 or self.goodput[i] > ALIKE * self.goodput[self.chosen]
            return "better, but not by enough to pay for the pause of a move now" if better else "no better for it"
        if dearer >= more:
            return f"worth {more:.3g} more to it, but its GPUs are worth {dearer:.3g} more to other jobs"
        return (
            f"worth {more:.3g} more to it, but other jobs hold the GPUs and none of them gives up enough at once"
        )


def _name(placement: Placement | None, configurations: ConfigurationSet) -> str | None:
    if placement is None:
        return None
    found = configurations.of(placement)
    return str(found) if found is not None else f"{placement.gpus}x{placement.gpu_type}"
