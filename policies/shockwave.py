"""Shockwave: fair and efficient plans over a window of rounds (Zheng et al., NSDI'23).

A program gives rounds of the window to jobs (`optimizer/nash_welfare.py`). It maximises the product of all jobs'
progress at the window's end, less a term for the job that will end last. Jobs weigh more the further they are
behind their fair share, as in a Fisher market whose budgets are finish-time fairness. The program is solved anew
when a job arrives or ends, when the GPUs change and when the window is over. In between its plan is followed.

The published policy knows one GPU type, as `type_blind` does. Here a round on a slower type makes less progress,
and the program chooses how many rounds of each type a job gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..optimizer.nash_welfare import Window, planned_rounds
from .choosing.budget import Budget
from .choosing.decided import Left, QueueReasons, decisions_of, room_reason
from .contract.explanation import Explanation, expectation, explained, job_of
from .contract.round import JobView, Note, Plan, Round
from .contract.traits import PolicyTraits
from .placing.best_fit import place_on_types
from .placing.ledger import is_pinned
from .placing.speeds import rates_of
from .queueing import preempting
from .registry import register

Floats = NDArray[np.float64]
LARGEST_WEIGHT = 1e6  # beyond it the solver could not tell other jobs' values from 0
A_ROUND = 1e-3  # a planned fraction of at least this much counts as a round


class ShockwaveOptions(BaseModel):
    """What an operator may set. Power and weight are from Sia's evaluation (section 3.4), others as published."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    future_rounds: int = Field(default=20, ge=1)
    # Power of finish-time fairness in a job's weight; fairness below 1 counts as 1.
    fairness_power: float = Field(default=10.0, ge=0)
    # Weight of the longest work left at the window's end, as a fraction of the longest left now.
    makespan_weight: float = Field(default=0.1, ge=0)
    # The logarithm of progress is linear between these points; `log_origin` stands for no progress.
    log_bases: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    log_origin: float = Field(default=1e-6, gt=0)
    # Whether all GPUs count as equal, as published; a job then starts where most are free.
    type_blind: bool = False
    time_limit_s: float = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _rise(self) -> Self:
        bases = self.log_bases
        if len(bases) < 2 or bases[0] != 0 or bases[-1] != 1 or min(np.diff(bases)) <= 0:
            raise ValueError("log_bases must rise from 0 to 1")
        if self.log_origin >= bases[1]:
            raise ValueError("log_origin must be below the first of log_bases above 0")
        return self


@register("shockwave")
class ShockwavePolicy:
    """Serves jobs of a fixed size. It keeps its plan from round to round, so `plan` must see every round.

    A job's work left is the mean of `expected`, on its fastest type. A job of unknown length is taken to have as
    much left as it has done, and at least a round. GPUs that the plan leaves idle go to jobs with most work left.
    """

    Options = ShockwaveOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=True, preempts=True, needs_expected=True)

    def __init__(self, options: ShockwaveOptions | None = None) -> None:
        self.options = options or ShockwaveOptions()
        self._planned_for: object = None  # the jobs and GPUs that the plan is for
        self._left = 0  # rounds of the window
        self._rounds: dict[str, Floats] = {}  # job -> rounds of the plan it has yet to get, by GPU type
        self._speed: dict[str, Floats] = {}
        self._weight: dict[str, float] = {}
        self._crowding = _Crowding()

    def plan(self, round: Round) -> Plan:
        jobs, types = list(round.jobs), round.cluster.gpu_types
        if not jobs or not types:
            self._planned_for = None
            nothing = decisions_of(
                round, {}, lambda i: room_reason(jobs[i], int(round.columns.gpus[i]), Left(round, {}))
            )
            return Plan({}, decisions=nothing)
        crowding = self._crowding.seen(round)
        key = (tuple(job.id for job in jobs), round.cluster)
        notes = list[Note]()
        if self._left == 0 or key != self._planned_for:
            if not self._solve(round, jobs, crowding):
                notes.append(Note("the window's program was not solved in time: jobs run by their fairness alone"))
            self._planned_for, self._left = key, self.options.future_rounds
        self._left -= 1
        order = np.array(self._order(round, jobs))
        figures = {
            "rounds": np.array([self._rounds[job.id] for job in jobs]),
            "weight": np.array([self._weight[job.id] for job in jobs]),
        }
        if self.options.type_blind:
            plan = preempting(round, order, type_blind=True)
        else:
            plan = _placed(round, order, self._choose(round, [jobs[i] for i in order.tolist()]))
        for id, placement in plan.placements.items():
            self._rounds[id][0 if self.options.type_blind else types.index(placement.gpu_type)] -= 1
        return replace(plan, notes=notes, figures=figures)

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by the rounds that the window's plan still gives it, and by its weight."""
        if not plan.figures:
            return explained(job, round, plan)
        i = job_of(job, round)
        rounds, weight = plan.figures["rounds"][i].clip(0.0), float(plan.figures["weight"][i])
        types = ("any type",) if self.options.type_blind else round.cluster.gpu_types
        planned = {t: n for t, n in zip(types, rounds.tolist(), strict=True) if n >= A_ROUND}
        listed = " and ".join(f"{n:.3g} on {t}" for t, n in planned.items())
        standing = [
            f"The plan gives it {listed} of the window's {self.options.future_rounds} rounds, this one included."
            if planned
            else "The plan gives it no more rounds in this window; it may run on GPUs that are left over.",
            f"Its weight is {weight:.4g}; 1 is that of a job that is not behind its fair share.",
        ]
        length, expected = expectation(
            round.jobs[i], "it is taken to need as long as it has had, and a round at least"
        )
        standing.append(length)
        return explained(job, round, plan, standing, {"planned_rounds": planned, "weight": weight, **expected})

    def _solve(self, round: Round, jobs: Sequence[JobView], crowding: Floats) -> bool:
        """Compute a new plan of the window. Return whether there was time for it."""
        columns, options = round.columns, self.options
        rates = np.array([rates_of(job, int(n), round.cluster) for job, n in zip(jobs, columns.gpus, strict=True)])
        capacity = np.array([round.cluster.capacity()[t] for t in round.cluster.gpu_types], float)
        if options.type_blind:
            rates, capacity = (rates > 0).any(axis=1, keepdims=True).astype(float), capacity.sum(keepdims=True)
        fastest = rates.max(axis=1, keepdims=True)
        speed = np.divide(rates, fastest, out=np.zeros_like(rates), where=fastest > 0)
        done_s, left_s = work_s(round)
        weight = fairness(round, done_s, left_s, crowding) ** options.fairness_power
        weight = np.minimum(weight, LARGEST_WEIGHT)
        # A job that ends within a round holds its GPUs for the whole round.
        done, left = done_s / round.length, np.maximum(left_s / round.length, 1.0)
        window = Window(weight, columns.gpus.astype(float), done, left, speed, capacity, options.future_rounds)
        bases = np.array(options.log_bases)
        found = planned_rounds(window, bases, options.log_origin, options.makespan_weight, options.time_limit_s)
        rounds = np.where(speed > 0, float(options.future_rounds), 0.0) if found is None else found
        ids = [job.id for job in jobs]
        self._rounds = dict(zip(ids, rounds, strict=True))
        self._speed = dict(zip(ids, speed, strict=True))
        self._weight = dict(zip(ids, weight.tolist(), strict=True))
        return found is not None

    def _order(self, round: Round, jobs: Sequence[JobView]) -> list[int]:
        """Return the order of jobs: pinned ones, then those of the plan, then those with most work left.

        Jobs of the plan are ordered by Smith's rule: weight over the GPU-rounds that a job is to get. That solves
        the published code's second program, by which jobs of most weight come first in the window.
        """
        left_s, gpus = work_s(round)[1], round.columns.gpus

        def rank(i: int) -> tuple[float, ...]:
            job = jobs[i]
            planned = float(self._rounds[job.id].clip(0.0).sum())
            if is_pinned(job, round.cluster):
                return (0.0,)
            if planned < A_ROUND:
                return 2.0, -left_s[i], i
            return 1.0, -self._weight[job.id] / (max(planned, 1.0) * gpus[i]), float(job.placement is None), i

        return sorted(range(len(jobs)), key=rank)

    def _choose(self, round: Round, jobs: Sequence[JobView]) -> dict[str, list[tuple[JobView, int]]]:
        """Return GPU type -> the jobs, given in order, that run on it this round, and their GPUs."""
        types, budget = round.cluster.gpu_types, Budget(round.cluster)
        chosen: dict[str, list[tuple[JobView, int]]] = {t: [] for t in types}
        taken: set[str] = set()

        def take(job: JobView, gpus: int, wanted: Iterable[str]) -> None:
            for t in wanted:
                if job.id not in taken and budget.take(t, gpus):
                    taken.add(job.id)
                    chosen[t].append((job, gpus))

        def by(values: Floats, job: JobView, least: float) -> list[str]:
            """Return the types with at least so much, largest first. Of equal ones the job's own comes first."""
            on = None if job.placement is None else job.placement.gpu_type
            able = [t for t in range(len(types)) if values[t] >= least and values[t] > 0]
            return [types[t] for t in sorted(able, key=lambda t: (-values[t], types[t] != on))]

        for job in jobs:
            if is_pinned(job, round.cluster) and job.placement is not None:
                take(job, job.placement.gpus, (job.placement.gpu_type,))
        for job in jobs:
            take(job, job.spec.asked_gpus, by(self._rounds[job.id], job, A_ROUND))
        for job in jobs:
            take(job, job.spec.asked_gpus, by(self._speed[job.id], job, 0.0))
        return chosen


def _placed(round: Round, order: NDArray[np.int64], chosen: Mapping[str, Sequence[tuple[JobView, int]]]) -> Plan:
    """Return a plan in which the chosen jobs are placed and the others wait for a reason."""
    placements = place_on_types(round.cluster, chosen)
    taken = {job.id for on_type in chosen.values() for job, _ in on_type}

    tried = np.array([id in taken for id in round.columns.ids.tolist()], bool)
    reasons = QueueReasons(round, placements, order, tried)
    return Plan(placements, decisions=decisions_of(round, placements, reasons.why), order=order)


class _Crowding:
    """The GPUs that all jobs ask for over the cluster's, at least 1, on average over each job's time."""

    def __init__(self) -> None:
        self._sum_s = 0.0  # integral of the crowding over time
        self._now, self._at_s = 1.0, 0.0
        self._arrived: dict[str, tuple[float, float]] = {}  # job -> (integral, moment) when it was first seen

    def seen(self, round: Round) -> Floats:
        """Return (jobs,) the mean crowding from each job's arrival to this round."""
        self._sum_s += self._now * (round.now - self._at_s)
        self._now, self._at_s = crowding_now(round), round.now
        first = self._sum_s, round.now
        self._arrived = {job.id: self._arrived.get(job.id, first) for job in round.jobs}
        spans = [(self._sum_s - start, round.now - at_s) for start, at_s in self._arrived.values()]
        return np.array([total / seconds if seconds > 0 else self._now for total, seconds in spans])


def crowding_now(round: Round) -> float:
    return max(float(round.columns.gpus.sum()) / sum(round.cluster.capacity().values()), 1.0)


def work_s(round: Round) -> tuple[Floats, Floats]:
    """Return (jobs,) seconds of work done and left. Time served counts as if on the job's fastest type."""
    columns = round.columns
    done_s = columns.attained_gpu_s / np.maximum(columns.gpus, 1)
    unknown = np.isnan(columns.remaining_s)
    # A job with nothing left ends any moment, but has to be served for that.
    left_s = np.where(unknown, np.maximum(done_s, round.length), np.maximum(columns.remaining_s, 1.0))
    return done_s, left_s


def fairness(round: Round, done_s: Floats, left_s: Floats, crowding: Floats) -> Floats:
    """Return (jobs,) predicted finish-time fairness ρ, at least 1.

    ρ is the predicted time in the system over the time that the whole job would take with a fair share. The work
    left is predicted to be slowed by the crowding now, and the fair share by the mean crowding since arrival.
    """
    age_s = np.maximum(round.now - round.columns.submitted_s, 0.0)
    rho = (age_s + left_s * crowding_now(round)) / ((done_s + left_s) * crowding)
    return np.asarray(np.maximum(rho, 1.0), float)
