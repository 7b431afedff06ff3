"""A whole round as one program: every job gets one configuration or none, and GPU types have so many GPUs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from ...optimizer.milp import ChoiceProblem, ChoiceSolution, solve
from ..configuration import Configuration, ConfigurationSet, Limits, needs
from ..placement import Placement
from ..placer import Demand, Placer
from ..round import JobView, Plan, Round

# Among equals: stay, then who came first. Far below any difference that means something.
TIE = 1e-6


class ProgramOptions(BaseModel):
    """What an operator may set of any such policy."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    timeshare_window_s: float | None = Field(default=None, gt=0)  # τ of section 3.5.6; None: no time sharing
    time_limit_s: float = Field(default=5.0, gt=0)
    gap: float = Field(default=1e-4, ge=0, lt=1)  # relative; how far from the optimum a plan may be


@dataclass(frozen=True)
class RoundMatrix:
    """One row per job, in the order of submission; what the program is made of."""

    jobs: Sequence[JobView]
    configurations: ConfigurationSet
    current: np.ndarray  # (jobs,) column each job runs in, or -1
    rows: np.ndarray  # what each configuration is worth to the job, discounted for a move
    gains: np.ndarray  # what a configuration adds to the objective over nothing
    options: np.ndarray  # where it may be chosen
    # (others, configurations) gains of jobs that are not there yet, 0: no option; what they take stays free.
    to_come: np.ndarray | None = None


class ProgramPolicy(ABC):
    """Builds the program from the values of `matrix`, solves it, and lets the placer find the GPUs.

    A job with a reservation takes exactly that; a placed non-preemptible job keeps its very GPUs.
    """

    def __init__(self, options: ProgramOptions) -> None:
        self._program = options
        self._configurations: tuple[tuple[object, ...], ConfigurationSet] | None = None
        self._rest_until: dict[str, float] = {}  # when the job may have its next turn
        self._ran: dict[str, float] = {}  # when it last held GPUs

    @abstractmethod
    def matrix(
        self, jobs: Sequence[JobView], configurations: ConfigurationSet, goodput: np.ndarray, now: float
    ) -> RoundMatrix:
        """The values of this round; `goodput`: (jobs, configurations), finite."""

    def plan(self, round: Round) -> Plan:
        order = sorted(range(len(round.jobs)), key=lambda i: (round.jobs[i].submitted_s, round.jobs[i].id))
        jobs = [round.jobs[i] for i in order]
        configurations = self._configuration_set(round, jobs)
        notes: list[str] = []
        if not jobs or not len(configurations):
            return Plan({}, objective=0.0, bound=0.0, gap=0.0, configurations=configurations)
        goodput = round.goodput(configurations)[order]
        matrix = self.matrix(jobs, configurations, np.where(np.isfinite(goodput), goodput, 0.0), round.now)
        held = {job.id: job.placement for job in jobs if job.placement is not None and _stays(job, configurations)}
        free = np.array([job.id not in held for job in jobs], dtype=bool)
        options, required = _constraints(matrix, free, notes)
        limits = configurations.limits(held.values())
        to_come = matrix.gains[:0] if matrix.to_come is None else matrix.to_come
        solution = solve(
            ChoiceProblem(
                np.concatenate([matrix.gains[free], to_come]),
                np.concatenate([options[free], to_come > 0]),
                limits.usage,
                limits.capacity,
                required=np.concatenate([required[free], np.zeros(len(to_come), dtype=bool)]),
            ),
            time_limit_s=self._program.time_limit_s,
            gap=self._program.gap,
        )
        choice = np.full(len(jobs), -1, dtype=np.int64)
        choice[free] = solution.choice[: int(free.sum())]
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
            solver_s=solution.solver_s,
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

    def shares(self, jobs: Sequence[JobView], now: float) -> np.ndarray:
        """(jobs,) what λ is multiplied with: 1 without time sharing, else 1 + w (section 3.5.6)."""
        window = self._program.timeshare_window_s
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


def _constraints(matrix: RoundMatrix, free: np.ndarray, notes: list[str]) -> tuple[np.ndarray, np.ndarray]:
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
