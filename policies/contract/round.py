"""The one contract that matters: a policy is a function of a round.

The live service and the simulator build a `Round`, call `Policy.plan`, and apply the `Plan`. A policy
reads no clock, touches no Ray and may keep state between rounds (warm starts, queues).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from ...core.cluster import Cluster
from ...core.decisions import Decision, Placed, Waiting, WaitReason
from ...core.expected import UNKNOWN, Expected
from ...core.job import JobSpec
from ...core.placement import Placement
from ...estimators.goodput import GoodputModel, goodput_matrix
from .configuration import ConfigurationSet


@dataclass(frozen=True)
class JobView:
    """One active job as a policy sees it at the start of a round."""

    id: str
    spec: JobSpec
    model: GoodputModel | None = None  # None: nothing is known yet
    placement: Placement | None = None  # what it runs on now; None: nothing
    age_s: float = 0.0  # since submission
    restarts: int = 0
    restart_cost_s: float = 30.0  # measured pause of one restart
    largest_gpus: Mapping[str, int] = field(default_factory=dict)  # most GPUs ever held, per GPU type
    attained_gpu_s: float = 0.0
    # Seconds served in the last time-share window (Sia, section 3.5.6).
    served_in_window_s: float = 0.0
    progress: float = 0.0  # samples at the initial batch size
    submitted_s: float = 0.0
    # What the job still needs on as many GPUs as it asks for, of the GPU type that is fastest for it.
    expected: Expected = UNKNOWN
    # Progress per second on the GPUs it asks for, by GPU type, where that was measured (a type that is missing
    # cannot run it); None: what `model` says.
    rates: Mapping[str, float] | None = None
    # Samples at the initial batch size it still has to train, as far as its epochs tell; None: nobody knows.
    remaining: float | None = None

    @property
    def remaining_s(self) -> float | None:
        """Return the mean of `expected` in seconds; None: nobody can tell."""
        return self.expected.mean_s if self.expected.known else None

    def goodput(self, configurations: ConfigurationSet) -> np.ndarray:
        """Return goodput in initial-batch-size samples/s of each configuration, 0 where it cannot run."""
        return goodput_matrix([self.model], configurations.arrays)[0]


def _objects(values: Sequence[object]) -> np.ndarray:
    column = np.empty(len(values), object)
    column[:] = values
    return column


@dataclass(frozen=True, eq=False)
class JobColumns:
    """The jobs of a round as columns, for policies that rank all of them at once.

    `ids`, `placements`: arrays of objects. `gpus`: what a job asks for, its fixed count or its minimum. `held`:
    GPUs it has. `remaining_s`: nan where nobody knows.
    """

    ids: np.ndarray
    placements: np.ndarray
    submitted_s: np.ndarray
    gpus: np.ndarray
    held: np.ndarray
    attained_gpu_s: np.ndarray
    remaining_s: np.ndarray
    preemptible: np.ndarray

    @classmethod
    def of(cls, jobs: Sequence[JobView]) -> JobColumns:
        asked = [job.spec.resources.gpus or job.spec.resources.min_gpus for job in jobs]
        held = [0 if job.placement is None else job.placement.gpus for job in jobs]
        remaining = [np.nan if job.remaining_s is None else job.remaining_s for job in jobs]
        return cls(
            ids=_objects([job.id for job in jobs]),
            placements=_objects([job.placement for job in jobs]),
            submitted_s=np.array([job.submitted_s for job in jobs], float),
            gpus=np.array(asked, np.int64),
            held=np.array(held, np.int64),
            preemptible=np.array([job.spec.preemptible for job in jobs], np.bool_),
            attained_gpu_s=np.array([job.attained_gpu_s for job in jobs], float),
            remaining_s=np.array(remaining, float),
        )


@dataclass(frozen=True)
class Round:
    """One scheduling decision: `now` and `length` in seconds, jobs in submission order.

    `jobs` may build its views when they are asked for, and then brings `columns` of its own.
    """

    now: float
    length: float
    cluster: Cluster
    jobs: Sequence[JobView]

    @cached_property
    def columns(self) -> JobColumns:
        own = getattr(self.jobs, "columns", None)
        return own if isinstance(own, JobColumns) else JobColumns.of(self.jobs)

    def goodput(self, configurations: ConfigurationSet) -> np.ndarray:
        """Return (jobs, configurations) goodput in one vectorised call; a job without a model gets zeros."""
        return goodput_matrix([job.model for job in self.jobs], configurations.arrays)


@dataclass(frozen=True)
class Plan:
    """job id -> placement (absent: no resources), and what a person or a test wants to know of it."""

    placements: Mapping[str, Placement]
    objective: float = float("nan")
    bound: float = float("nan")
    gap: float = float("nan")
    prices: Mapping[str, float] = field(default_factory=dict)  # marginal value of one GPU of each type
    solver_s: float = 0.0  # seconds inside the solver library
    evictions: int = 0  # jobs left out or moved only because of fragmentation
    notes: Sequence[str] = ()  # "the search ended at a limit", …
    # Every job of the round: placed, waiting (reason) or refused. Each is worked out when it is read.
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    # Positions in `Round.jobs` in the order in which the policy served them; None: it has no order.
    order: np.ndarray | None = None
    # What the policy went by, for `explain`: name -> (jobs,) or (jobs, GPU types), by position in `Round.jobs`.
    figures: Mapping[str, np.ndarray] = field(default_factory=dict)
    # When the policy wants to be asked again, on the clock of `Round.now`; None: whenever the next round is.
    again_s: float | None = None
    # Per job, what `explain` shows: the row the policy optimised over and the configurations' names.
    rows: Mapping[str, np.ndarray] = field(default_factory=dict)
    # What each configuration adds to the objective over leaving the job out; -inf where it was no option.
    gains: Mapping[str, np.ndarray] = field(default_factory=dict)
    configurations: ConfigurationSet | None = None
    # The plans of the pools that this one joins; empty where the cluster is planned as one.
    pools: Mapping[str, Plan] = field(default_factory=dict)

    def decision(self, job: str) -> Decision:
        """Return the decision about a job of the round; of a policy that gives none, what its placements say."""
        found = self.decisions.get(job)
        if found is not None:
            return found
        placement = self.placements.get(job)
        if placement is not None:
            return Placed(placement)
        return Waiting(WaitReason.NOT_SAID, "The policy gives no reason.")


class Planner(Protocol):
    """Whatever decides rounds; `contract.policy.Policy` is a planner that is offered to users."""

    def plan(self, round: Round) -> Plan: ...
