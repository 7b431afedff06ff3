"""The one contract that matters: a policy is a function of a round.

The live service and the simulator build a `Round`, call `Policy.plan`, and apply the `Plan`. A policy reads no
clock and calls no Ray. It may keep state between rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from ...core.cluster import Cluster, Node
from ...core.deadline_answer import Planned
from ...core.decisions import Decision, Placed, Waiting, WaitReason
from ...core.expected import UNKNOWN, Expected
from ...core.job import JobSpec
from ...core.placement import Placement
from ...core.rewards import Rewards
from ...core.usage import UsageOn
from ...estimators.goodput import GoodputModel, goodput_matrix
from ...estimators.sensitivity.model import Sensitivity
from .arrivals import Arrivals
from .configuration import ConfigurationSet
from .foresight import Foresight
from .sharing import Sharing, Standing


@dataclass(frozen=True)
class JobView:
    """One active job as a policy sees it at the start of a round."""

    id: str
    spec: JobSpec
    model: GoodputModel | None = None  # None if nothing is known yet
    placement: Placement | None = None  # what it runs on now; None for nothing
    age_s: float = 0.0  # since submission
    restarts: int = 0
    restart_cost_s: float = 30.0  # measured pause of one restart
    largest_gpus: Mapping[str, int] = field(default_factory=dict)  # most GPUs ever held, per GPU type
    attained_gpu_s: float = 0.0
    progress: float = 0.0  # samples at the initial batch size
    submitted_s: float = 0.0
    # Time that the job still needs on the GPUs it asks for, of the fastest GPU type that has so many.
    expected: Expected = UNKNOWN
    # Measured progress per second on the GPUs it asks for, by the GPU types that can run it. None: ask `model`.
    rates: Mapping[str, float] | None = None
    # Samples at the initial batch size that it still has to train; None if its epochs do not tell.
    remaining: float | None = None
    # How much it used the GPUs that it held, by GPU type. A type of which nothing is known is absent.
    usage: Mapping[str, UsageOn] = field(default_factory=dict)
    # What ending by when is worth, in seconds since submission; None: as soon as possible, with no deadline.
    rewards: Rewards | None = None
    # Speed by the number of nodes, over that on the fewest; {}: `model` says it, or nobody knows.
    on_nodes: Mapping[int, float] = field(default_factory=dict)
    # How fast its input is with given CPUs and memory; None: nobody knows.
    sensitivity: Sensitivity | None = None
    # Whether it runs on GPUs that other teams leave idle, as the last plan said (`Plan.borrowed`).
    borrows: bool = False
    # GPUs on which it trains so that its speed becomes known. 0: it is known, or all that it asks for are needed.
    measured_on: int = 0
    # Seconds it still needs if its metric never reaches its target; None: it has none, or nobody knows.
    longest_s: float | None = None

    @property
    def remaining_s(self) -> float | None:
        """The mean of `expected` in seconds; None if it is unknown."""
        return self.expected.mean_s if self.expected.known else None

    def goodput(self, configurations: ConfigurationSet) -> np.ndarray:
        """Return (configurations,) goodput in initial-batch-size samples/s; 0 where the job cannot run."""
        return goodput_matrix([self.model], configurations.arrays)[0]


def objects(values: Sequence[object]) -> np.ndarray:
    """Return a column of objects."""
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _priorities(jobs: Sequence[JobView]) -> np.ndarray | None:
    """Return (jobs,) steps above normal, with a fraction for a weight; None if all are normal."""
    worth = [job.spec.worth for job in jobs]
    return None if all(one == 1.0 for one in worth) else np.log2(worth)


@dataclass(frozen=True, eq=False)
class JobColumns:
    """The jobs of a round as columns, for policies that rank all of them at once.

    ids, placements: arrays of objects.
    gpus: what a job asks for (`JobSpec.asked_gpus`).
    held: GPUs that it has.
    remaining_s: nan if it is unknown.
    priority: 0 for normal, 1 for each step above it; None: all jobs have the same.
    rewards: of `JobView.rewards`; None: no job has a deadline.
    borrows: whether a job runs on what other teams leave idle, as the last plan said; None: no job does.
    exact: whether `remaining_s` is known without any doubt.
    high_s: the upper ends of the bands of `JobView.expected`; nan if it is unknown. None: there are no doubts.
    """

    ids: np.ndarray
    placements: np.ndarray
    submitted_s: np.ndarray
    gpus: np.ndarray
    held: np.ndarray
    attained_gpu_s: np.ndarray
    remaining_s: np.ndarray
    preemptible: np.ndarray
    priority: np.ndarray | None = None
    rewards: np.ndarray | None = None
    borrows: np.ndarray | None = None
    exact: bool = False
    high_s: np.ndarray | None = None

    @classmethod
    def of(cls, jobs: Sequence[JobView]) -> JobColumns:
        asked = [job.spec.asked_gpus for job in jobs]
        held = [0 if job.placement is None else job.placement.gpus for job in jobs]
        remaining = [np.nan if job.remaining_s is None else job.remaining_s for job in jobs]
        return cls(
            ids=objects([job.id for job in jobs]),
            placements=objects([job.placement for job in jobs]),
            submitted_s=np.array([job.submitted_s for job in jobs], float),
            gpus=np.array(asked, np.int64),
            held=np.array(held, np.int64),
            preemptible=np.array([job.spec.preemptible for job in jobs], np.bool_),
            attained_gpu_s=np.array([job.attained_gpu_s for job in jobs], float),
            remaining_s=np.array(remaining, float),
            priority=_priorities(jobs),
            rewards=objects([job.rewards for job in jobs]) if any(job.rewards for job in jobs) else None,
            borrows=np.array([job.borrows for job in jobs], np.bool_)
            if any(job.borrows for job in jobs)
            else None,
            high_s=np.array([job.expected.high_s if job.expected.known else np.nan for job in jobs], float),
        )

    @property
    def has_deadline(self) -> np.ndarray:
        """(jobs,) whether a job has a deadline, or had one."""
        if self.rewards is None:
            return np.zeros(len(self.ids), np.bool_)
        return np.array([rewards is not None for rewards in self.rewards.tolist()], np.bool_)

    def by(self, key: np.ndarray) -> np.ndarray:
        """Return positions by a key, smallest first, jobs of higher priority before all others.

        Ties go by submission, then by position.
        """
        keys = (self.submitted_s, key) if self.priority is None else (self.submitted_s, key, -self.priority)
        return np.lexsort(keys)


@dataclass(frozen=True)
class Round:
    """What a policy decides on: the cluster, and the jobs in submission order. `now` and `length` are seconds.

    `jobs` may build its views when they are read. It then has `columns` of its own. `asleep`: nodes that are
    powered off or on their way back. No job can be placed there now, and jobs may wait for them.
    `sharing`: what teams were promised; None: there are no teams. `arriving`: what is foretold to arrive in the
    mean of the next slots; None: nobody foretells it. `foresight`: what teams will submit; None: nobody knows.
    """

    now: float
    length: float
    cluster: Cluster
    jobs: Sequence[JobView]
    asleep: tuple[Node, ...] = ()
    sharing: Sharing | None = None
    arriving: Arrivals | None = None
    foresight: Foresight | None = None

    @cached_property
    def columns(self) -> JobColumns:
        own = getattr(self.jobs, "columns", None)
        return own if isinstance(own, JobColumns) else JobColumns.of(self.jobs)

    def goodput(self, configurations: ConfigurationSet) -> np.ndarray:
        """Return (jobs, configurations) goodput; 0 for a job without a model."""
        return goodput_matrix([job.model for job in self.jobs], configurations.arrays)


@dataclass(frozen=True)
class Note:
    """A sentence on a plan for a person; `job`: the job that it is about, None for none in particular."""

    text: str
    job: str | None = None


@dataclass(frozen=True)
class Plan:
    """What a policy decides: placements by job id, and what explains them. An absent job gets nothing."""

    placements: Mapping[str, Placement]
    objective: float = float("nan")
    bound: float = float("nan")
    gap: float = float("nan")
    prices: Mapping[str, float] = field(default_factory=dict)  # marginal value of one GPU of each type
    # Marginal value of one CPU, and of one GiB, beside GPUs of each type, in speeds of a job at its share.
    cpu_prices: Mapping[str, float] = field(default_factory=dict)
    memory_prices: Mapping[str, float] = field(default_factory=dict)
    solver_s: float = 0.0  # seconds inside the solver library
    evictions: int = 0  # jobs left out or moved only because of fragmentation
    notes: Sequence[Note] = ()  # "the search ended at a limit", …
    # Every job of the round: placed, waiting (reason) or refused. Each decision is computed when it is read.
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    # Positions in `Round.jobs` in the order in which the policy served them; None if it has no order.
    order: np.ndarray | None = None
    # What the policy went by, for `explain`: (jobs,) or (jobs, GPU types) by name, in the order of `Round.jobs`.
    figures: Mapping[str, np.ndarray] = field(default_factory=dict)
    # When the policy wants to be asked again, on the clock of `Round.now`; None for the next regular round.
    again_s: float | None = None
    # What configurations are worth to each job, (configurations,), for `explain`.
    rows: Mapping[str, np.ndarray] = field(default_factory=dict)
    # What each configuration adds to the objective over leaving the job out; -inf if it was no option.
    gains: Mapping[str, np.ndarray] = field(default_factory=dict)
    # What each configuration is worth to other jobs, at the prices of the round.
    costs: Mapping[str, np.ndarray] = field(default_factory=dict)
    configurations: ConfigurationSet | None = None
    # What is planned for jobs with deadlines, by id; {}: the policy looks at none.
    deadlines: Mapping[str, Planned] = field(default_factory=dict)
    # Jobs that begin anew from nothing, as if they had no checkpoint; in simulations.
    lost: frozenset[str] = frozenset()
    # Jobs that run on GPUs which other teams leave idle; they are told of in the next round (`JobView.borrows`).
    borrowed: frozenset[str] = frozenset()
    # The plans of the pools that this plan joins; empty if the cluster is planned as a whole.
    pools: Mapping[str, Plan] = field(default_factory=dict)
    # How teams stand after the round, by team and GPU type; empty without teams.
    teams: Mapping[str, Mapping[str, Standing]] = field(default_factory=dict)
    # Why pools are not planned, by pool: their policy raised. Their jobs keep what they have.
    failures: Mapping[str, Exception] = field(default_factory=dict)

    def decision(self, job: str) -> Decision:
        """Return the decision about a job of the round. If the policy gives none, the placements tell it."""
        found = self.decisions.get(job)
        if found is not None:
            return found
        placement = self.placements.get(job)
        if placement is not None:
            return Placed(placement)
        return Waiting(WaitReason.NOT_SAID, "The policy gives no reason.")


class Planner(Protocol):
    """Anything that plans rounds. `contract.policy.Policy` is a planner that is offered to users."""

    def plan(self, round: Round) -> Plan: ...
