"""Sia: goodput-optimal configurations for all jobs at once (Sia, SOSP'23, section 3.3.4 and 3.5.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from ...optimizer.milp import ChoiceProblem, ChoiceSolution, solve
from ..configuration import Configuration, ConfigurationSet, Limits, needs
from ..eligibility import Eligibility, eligibility
from ..placement import Placement
from ..placer import Demand, Placer
from ..round import JobView, Plan, Round
from .registry import register

# A job with many restarts still moves for a configuration ten times as good.
LEAST_RESTART_FACTOR = 0.1
# Among equals: stay, then who came first. Far below any difference that means something.
TIE = 1e-6


class SiaOptions(BaseModel):
    """What an operator may set."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    p: float = Field(default=-0.5, ge=-5, le=5)  # fairness power; negative: minimise
    lambda_: float = Field(default=1.1, ge=0, alias="lambda")  # penalty for giving a job nothing
    timeshare_window_s: float | None = Field(default=None, gt=0)  # τ of section 3.5.6; None: no time sharing
    time_limit_s: float = Field(default=5.0, gt=0)
    gap: float = Field(default=1e-4, ge=0, lt=1)  # relative; how far from the optimum a plan may be
    restart_factor: bool = True

    @field_validator("p")
    @classmethod
    def _has_a_sign(cls, p: float) -> float:
        if p == 0:
            raise ValueError("p decides by its sign whether the objective is minimised; -0.5 is usual")
        return p


def restart_factor(job: JobView) -> float:
    """r = (T - N S) / (T + S), equation 3.3, within [0.1, 1]: T age, N restarts, S cost of one in seconds."""
    age, cost = max(job.age_s, 0.0), max(job.restart_cost_s, 0.0)
    if age + cost <= 0:
        return 1.0
    return float(np.clip((age - job.restarts * cost) / (age + cost), LEAST_RESTART_FACTOR, 1.0))


def normalised(goodput: np.ndarray, may: Eligibility, known: np.ndarray) -> np.ndarray:
    """(jobs, configurations) goodput over the row's smallest, times the job's minimum GPUs; 0 where not usable.

    The smallest is taken over all configurations the job can use, not only those it can reach now, so that
    a job's scale does not change while it grows. A job without a model values its smallest
    configurations at their minimum.
    """
    least = np.where(may.usable & known[:, None], goodput, np.inf).min(axis=1, initial=np.inf)
    scale = np.where(np.isfinite(least), may.smallest / least, 0.0)
    known_rows = np.where(may.usable, goodput, 0.0) * scale[:, None]
    return np.where(known[:, None], known_rows, np.where(may.reachable, may.smallest[:, None], 0.0))


@dataclass(frozen=True)
class _Matrix:
    """One row per job, in the order of submission; what the program is made of."""

    jobs: Sequence[JobView]
    configurations: ConfigurationSet
    current: np.ndarray  # (jobs,) column each job runs in, or -1
    rows: np.ndarray  # r * G
    gains: np.ndarray  # what a configuration adds to the objective over nothing
    options: np.ndarray  # where it may be chosen


@register("sia")
class SiaPolicy:
    """Equations 3.2 to 3.5 for a whole round, exactly; then the placer.

    The program is solved as "gain over leaving the job out": for p < 0, minimising sum of A x + λ (1 - |x|) is
    maximising sum of (λ - A) x with A = (r G)^p; for p > 0, maximising sum of A x - λ (1 - |x|) is maximising
    sum of (A + λ) x. A configuration that a job cannot use is no option, rather than one of small value.
    Three readings where the paper leaves room:

    * Leaving a running job out interrupts it as moving it does, so for p < 0 its λ carries the same r^p.
      (Otherwise a small r makes idling cheaper than any move, even with GPUs free.) Where a job cannot stay
      as it is, its nodes being gone, it has no factor at all.
    * Time sharing multiplies λ with 1 + w: for a waiting job that served s of the last τ seconds
      w = (τ - s) / τ, and up to 1 more while it goes on waiting; 3 for one in the middle of its turn, so that
      turns are not broken off; 0 for the τ seconds after a full turn. The paper's λ = (τ - s) / τ alone lets
      GPUs idle, since a job's smallest configuration costs A = 1.
    * A job with a reservation takes exactly that; a placed non-preemptible job keeps its very GPUs.
    """

    Options = SiaOptions

    def __init__(self, options: SiaOptions | None = None) -> None:
        self.options = options or SiaOptions()
        self._configurations: tuple[tuple[object, ...], ConfigurationSet] | None = None
        self._rest_until: dict[str, float] = {}  # when the job may have its next turn
        self._ran: dict[str, float] = {}  # when it last held GPUs

    def plan(self, round: Round) -> Plan:
        order = sorted(range(len(round.jobs)), key=lambda i: (round.jobs[i].submitted_s, round.jobs[i].id))
        jobs = [round.jobs[i] for i in order]
        configurations = self._configuration_set(round, jobs)
        notes: list[str] = []
        if not jobs or not len(configurations):
            return Plan({}, objective=0.0, bound=0.0, gap=0.0, configurations=configurations)
        goodput = round.goodput(configurations)[order]
        matrix = self._matrix(jobs, configurations, np.where(np.isfinite(goodput), goodput, 0.0), round.now)
        held = {job.id: job.placement for job in jobs if job.placement is not None and _stays(job, configurations)}
        free = np.array([job.id not in held for job in jobs], dtype=bool)
        options, required = _constraints(matrix, free, notes)
        limits = configurations.limits(held.values())
        solution = solve(
            ChoiceProblem(
                matrix.gains[free], options[free], limits.usage, limits.capacity, required=required[free]
            ),
            time_limit_s=self.options.time_limit_s,
            gap=self.options.gap,
        )
        choice = np.full(len(jobs), -1, dtype=np.int64)
        choice[free] = solution.choice
        _note(solution, [job for job, is_free in zip(jobs, free, strict=True) if is_free], notes)
        wanted = {job.id: configurations[c] for job, c in zip(jobs, choice.tolist(), strict=True) if c >= 0}
        wanted |= {id: _realised(placement, configurations) for id, placement in held.items()}
        placed = Placer().place(
            wanted,
            {job.id: job.placement for job in jobs if job.placement is not None},
            round.cluster,
            held.keys(),
            {job.id: _demand(job) for job in jobs},
        )
        notes += [f"job {id}: no room on the nodes that are left for {wanted[id]}" for id in placed.unplaced]
        gains = np.where(options & free[:, None], matrix.gains, -np.inf)
        return Plan(
            placements=placed.placements,
            objective=solution.objective,
            bound=solution.bound,
            gap=solution.gap,
            prices=_prices(solution, limits, configurations),
            solver_s=solution.highs_s,
            evictions=len(placed.evicted) + len(placed.unplaced),
            notes=tuple(notes),
            rows={job.id: row for job, row in zip(jobs, matrix.rows, strict=True)},
            gains={job.id: row for job, row in zip(jobs, gains, strict=True)},
            configurations=configurations,
        )

    def _configuration_set(self, round: Round, jobs: Sequence[JobView]) -> ConfigurationSet:
        """Last round's, if the nodes and what the jobs need are the same."""
        extra, most = needs(round.cluster, (job.spec for job in jobs))
        key = (round.cluster, extra, most)
        if self._configurations is None or self._configurations[0] != key:
            self._configurations = (key, ConfigurationSet(round.cluster, extra, most))
        return self._configurations[1]

    def _matrix(
        self, jobs: Sequence[JobView], configurations: ConfigurationSet, goodput: np.ndarray, now: float
    ) -> _Matrix:
        may = eligibility(jobs, configurations, goodput)
        known = np.array([job.model is not None for job in jobs], dtype=bool)
        value = normalised(goodput, may, known)
        current = np.array([configurations.index(job.placement) for job in jobs], dtype=np.int64)
        runs = current >= 0
        # What a job has it may keep, even where a doubling limit or a model learnt since would not offer it.
        options = may.reachable.copy()
        options[runs, current[runs]] = may.allowed[runs, current[runs]]
        floor = may.smallest[runs].astype(float)
        value[runs, current[runs]] = np.maximum(value[runs, current[runs]], np.where(floor > 0, floor, 1.0))
        runs &= options[np.arange(len(jobs)), current]
        factor = np.ones(len(jobs))
        if self.options.restart_factor:
            factor[runs] = [restart_factor(job) for job, is_running in zip(jobs, runs, strict=True) if is_running]
        discount = np.repeat(factor[:, None], len(configurations), axis=1)
        discount[runs, current[runs]] = 1.0
        rows = value * discount
        gains = self._gains(rows, options, factor, self._shares(jobs, now))
        gains += TIE * (1 - np.arange(len(jobs)) / len(jobs))[:, None]
        gains[runs, current[runs]] += 2 * TIE
        return _Matrix(jobs, configurations, np.where(runs, current, -1), rows, gains, options)

    def _gains(self, rows: np.ndarray, options: np.ndarray, factor: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """λ - (r G)^p for p < 0, (r G)^p + λ for p > 0; 0 where it is no option."""
        p, penalty = self.options.p, self.options.lambda_
        power = np.where(options, rows, 1.0) ** p
        if p > 0:
            gains = power + (penalty * shares)[:, None]
        else:
            resting = shares <= 1.0
            stay = np.where((self.options.timeshare_window_s is not None) & resting, 1.0, factor**p)
            gains = (penalty * shares * stay)[:, None] - power
        return np.where(options, gains, 0.0)

    def _shares(self, jobs: Sequence[JobView], now: float) -> np.ndarray:
        """(jobs,) what λ is multiplied with: 1 without time sharing, else 1 + w (section 3.5.6)."""
        window = self.options.timeshare_window_s
        if window is None:
            return np.ones(len(jobs))
        active = {job.id for job in jobs}
        rest = {id: until for id, until in self._rest_until.items() if id in active and until > now}
        ran = {id: when for id, when in self._ran.items() if id in active}
        served = {job.id: min(max(job.served_in_window_s, 0.0), window) for job in jobs}
        for job in jobs:
            if job.id not in rest and served[job.id] >= window - 1e-6:
                rest[job.id] = now + window
            if job.placement is not None:
                ran[job.id] = now
        self._rest_until, self._ran = rest, ran

        def weight(job: JobView) -> float:
            if job.id in rest:
                return 0.0
            if job.placement is not None:
                return 3.0
            waited = now - ran[job.id] if job.id in ran else job.age_s
            return 1.0 - served[job.id] / window + min(waited / (10 * window), 1.0)

        return 1.0 + np.array([weight(job) for job in jobs])


def _stays(job: JobView, configurations: ConfigurationSet) -> bool:
    """A non-preemptible job on nodes that are still there is not decided about."""
    if job.spec.preemptible or job.placement is None:
        return False
    nodes = configurations.cluster.by_id
    return bool(job.placement.shares) and all(
        share.node_id in nodes
        and nodes[share.node_id].gpu_type == job.placement.gpu_type
        and nodes[share.node_id].gpus >= share.gpus
        for share in job.placement.shares
    )


def _realised(placement: Placement, configurations: ConfigurationSet) -> Configuration:
    found = configurations.of(placement)
    return found or Configuration(placement.nodes, placement.gpus, placement.gpu_type)


def _constraints(matrix: _Matrix, free: np.ndarray, notes: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Options and rows that must be served: reservations, and non-preemptible jobs from their first round on."""
    options = matrix.options.copy()
    required = np.zeros(len(matrix.jobs), dtype=bool)
    for i, job in enumerate(matrix.jobs):
        if not free[i]:
            continue
        required[i] = not job.spec.preemptible and bool(options[i].any())
        reserved = job.spec.reservation
        if reserved is None:
            continue
        exact = np.array(
            [
                c.gpu_type == reserved.gpu_type
                and c.gpus == reserved.gpus
                and c.holds_replicas(job.spec.gpus_per_replica(c.gpu_type) or 1)
                for c in matrix.configurations.items
            ],
            dtype=bool,
        )
        if exact.any():
            options[i], required[i] = exact, True
            matrix.gains[i, exact & ~matrix.options[i]] = 0.0
        else:
            have = matrix.configurations.cluster.capacity().get(reserved.gpu_type, 0)
            notes.append(
                f"job {job.id}: reservation of {reserved.gpus} {reserved.gpu_type} cannot be met, the cluster has "
                f"{have}; the job competes like any other"
            )
    return options, required


def _note(solution: ChoiceSolution, jobs: Sequence[JobView], notes: list[str]) -> None:
    for row in sorted(solution.unmet):
        job = jobs[row]
        what = (
            f"reservation of {job.spec.reservation.gpus} {job.spec.reservation.gpu_type}"
            if job.spec.reservation is not None
            else "non-preemptible job"
        )
        notes.append(f"job {job.id}: {what} cannot be met beside jobs that may not be preempted; it waits")
    if not solution.proven:
        notes.append(
            f"solver stopped at its time limit: the plan is feasible and within {solution.gap:.2%} of the optimum"
        )


def _prices(solution: ChoiceSolution, limits: Limits, configurations: ConfigurationSet) -> Mapping[str, float]:
    """Marginal value of one GPU of each type, in units of the objective: that of the dearest configuration."""
    arrays = configurations.arrays
    each = (solution.prices @ limits.usage) / arrays.gpus
    return {t: float(each[arrays.type_index == i].max(initial=0.0)) for i, t in enumerate(arrays.gpu_types)}


def _demand(job: JobView) -> Demand:
    resources = job.spec.resources
    return Demand(resources.cpus_per_gpu, resources.memory_gib_per_gpu)
