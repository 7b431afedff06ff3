"""The state of a cluster from which a forecast begins, as the last round saw it. It goes over as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..core.cluster import Node
from ..core.expected import UNKNOWN, Expected, ExpectedSource
from ..core.job import JobSpec
from ..core.placement import Placement
from ..core.rewards import Rewards
from ..core.teams import Teams
from ..core.training_config import TrainingConfig
from .models import SentModel


class Part(StrEnum):
    """How something takes part in rounds."""

    JOB = "job"
    PROFILE = "profile"  # a job is measured on one GPU type
    KEPT = "kept"  # it keeps what it has and gets nothing else


@dataclass(frozen=True)
class LiveJob:
    """A job or a profile run. Times are seconds of the scheduler's steady clock.

    spec: without what says nothing to a policy, as its variables.
    placement: what the last plan gives it; None: nothing.
    ready_s: when it takes part in rounds; until then it is measured.
    pause_s: seconds until it trains on its placement; 0: it does.
    pace: samples/s at the initial batch size, by its last reports on these GPUs; None: they do not tell.
    reported_s: when it told on these GPUs how far it is; None: it did not yet.
    start_s, move_s: what its starts took, and what its moves took from training; None: not known yet.
    attained_gpu_s, progress, remaining, restarts, restart_cost_s, largest_gpus, expected: as of
    `policies.contract.round.JobView`.
    rewards: what ending by when is worth; None: it has no deadline.
    cancelled_s: when it is cancelled if it still runs, as its last deadline has passed; None: never.
    """

    id: str
    spec: JobSpec
    submitted_s: float
    part: Part = Part.JOB
    owner: str = ""
    script_key: str = ""
    model: SentModel | None = None
    placement: Placement | None = None
    ready_s: float = 0.0
    pause_s: float = 0.0
    progress: float = 0.0
    pace: float | None = None
    reported_s: float | None = None
    attained_gpu_s: float = 0.0
    restarts: int = 0
    restart_cost_s: float = 30.0
    start_s: float | None = None
    move_s: float | None = None
    largest_gpus: dict[str, int] = field(default_factory=dict)
    mean_s: float | None = None  # these four are its `expected`, None: nobody knows
    low_s: float = 0.0
    high_s: float = 0.0
    source: ExpectedSource = ExpectedSource.UNKNOWN
    remaining: float | None = None
    rewards: Rewards | None = None
    cancelled_s: float | None = None

    @property
    def expected(self) -> Expected:
        """What it still needs on the GPUs it asks for."""
        return UNKNOWN if self.mean_s is None else Expected(self.mean_s, self.low_s, self.high_s, self.source)


@dataclass(frozen=True)
class PastJob:
    """A job of the last weeks that has ended.

    served_s: how long it had GPUs.
    samples: how far it came, at its initial batch size; None: it did not say.
    start_s, move_s: as of `LiveJob`.
    """

    id: str
    spec: JobSpec
    owner: str
    script_key: str
    submitted_s: float
    served_s: float
    samples: float | None = None
    model: SentModel | None = None
    start_s: float | None = None
    move_s: float | None = None


@dataclass(frozen=True)
class LiveState:
    """A cluster after a round.

    now_s: when the round was, by the scheduler's steady clock.
    round: its number.
    early_s: how long after an event a round comes early.
    teams: by which rounds go; None: by none.
    """

    now_s: float
    round: int
    interval_s: float
    early_s: float
    policy: str
    options: dict[str, Any]
    nodes: tuple[Node, ...]
    jobs: tuple[LiveJob, ...]
    restart_cost_s: float = 30.0
    teams: Teams | None = None


STATE = TypeAdapter(LiveState)
PAST = TypeAdapter(tuple[PastJob, ...])


def told_spec(spec: JobSpec, *, as_written: bool = True) -> JobSpec:
    """Return a spec without what no policy reads: variables, secrets, arguments, files.

    Args:
        as_written: whether a user wrote it. Rounds change specs, as that of a profile run, to some that nobody
            may write. Of these only resources, pool and what may be done to the job are kept.
    """
    nothing: dict[str, Any] = {"env": {}, "secrets": [], "args": [], "pip": [], "working_dir": "."}
    found = spec.model_copy(update=nothing)
    if as_written:
        return found
    try:
        return JobSpec.model_validate(found.model_dump(mode="json"))
    except ValidationError:
        return JobSpec(
            name=spec.name,
            script="train.py",
            resources=spec.resources,
            training=TrainingConfig(adaptivity=spec.training.adaptivity),
            pool=spec.pool,
            team=spec.team,
            preemptible=spec.preemptible,
            reservation=spec.reservation,
        )
