"""Why a job has what it has: its goodput everywhere, what it would gain elsewhere, and what stands in the way."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from .configuration import ConfigurationSet
from .eligibility import Eligibility, eligibility
from .placement import Placement
from .policies.sia import restart_factors
from .round import JobView, Plan, Round


@dataclass(frozen=True)
class Option:
    """One configuration from the job's point of view.

    goodput: initial-batch-size samples/s. relative: goodput over that of what the job has after this round, None
    where it has nothing. value: what the policy compared, normalised goodput with the restart factor. gain:
    what it adds to the objective over leaving the job out; cost: its GPUs at this round's prices.
    verdict: why the job does or does not have it.
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


@dataclass(frozen=True)
class Explanation:
    """What `coadapt explain JOB` shows. `options` has every configuration, `better` those of higher goodput."""

    job_id: str
    name: str
    before: str | None
    chosen: str | None
    restart_factor: float | None
    prices: dict[str, float]
    options: tuple[Option, ...]
    notes: tuple[str, ...]

    @property
    def better(self) -> tuple[Option, ...]:
        """Configurations with a higher goodput than the job gets, best first."""
        got = next((o.goodput for o in self.options if o.configuration == self.chosen), 0.0)
        return tuple(sorted((o for o in self.options if o.goodput > got), key=lambda o: -o.goodput))

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For a person: what was decided, what it costs, and what stops the job from having more."""
        found = [self._decision()]
        if self.restart_factor is not None and self.before is not None:
            found.append(
                f"A move costs a restart: other configurations count {self.restart_factor:.2f} of their goodput."
            )
        priced = [f"{t} {price:.3g}" for t, price in self.prices.items()]
        if priced:
            found.append("Price of one GPU this round, in units of the objective: " + ", ".join(priced) + ".")
        for option in self.better[:5]:
            times = f"{option.relative:.2f} x" if option.relative else f"{option.goodput:.4g} samples/s"
            found.append(f"  {option.configuration}: {times}; {option.verdict}")
        if not self.better and self.chosen is not None:
            found.append("No configuration of this cluster would give it a higher goodput.")
        return [*found, *(f"note: {note}" for note in self.notes)]

    def _decision(self) -> str:
        if self.chosen is None:
            return f"{self.name} gets nothing this round" + (f"; it had {self.before}." if self.before else ".")
        got = next((o.goodput for o in self.options if o.configuration == self.chosen), 0.0)
        rate = f", goodput {got:.4g} samples/s" if got > 0 else ""
        if self.before is None:
            return f"{self.name} starts on {self.chosen}{rate}."
        if self.before == self.chosen:
            return f"{self.name} stays on {self.chosen}{rate}."
        return f"{self.name} moves from {self.before} to {self.chosen}{rate}."


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
    )


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
            better = self.chosen < 0 or self.goodput[i] > self.goodput[self.chosen]
            return "better, but not by enough to pay for a restart now" if better else "no better for the job"
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
