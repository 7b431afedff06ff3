"""What a study sees of its groups, and what it asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from .bubbles import Place
from .planner import EpochTime, GroupMemory, Kind
from .space import Value

UNMEASURED = 16  # trials of a group of which no memory was measured


class GroupState(StrEnum):
    """Where a group is. `DECIDED`: asked for, not seen yet."""

    DECIDED = "decided"
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether it trains no more."""
        return self in (GroupState.ENDED, GroupState.FAILED, GroupState.CANCELLED)


@dataclass(frozen=True)
class SeenGroup:
    """One group as it is now.

    `runs`: what it trains now, by the numbers of `Submit.runs`.
    `metrics`: run -> epoch -> the metric after it; all epochs, or those since the last decision. NaN may be there.
    `gpu_s`: GPU-seconds that it has held so far. `message`: why it failed, or what it could not do.
    `reported`: names of metrics that it reported. `weight`: what its job has; None: not known, and left as it is.
    `epoch_s`: seconds of an epoch as it trains now; None: not known yet.
    """

    state: GroupState
    runs: tuple[int, ...]
    metrics: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    gpu_s: float = 0.0
    message: str = ""
    reported: tuple[str, ...] = ()
    weight: float | None = None
    epoch_s: float | None = None


@dataclass(frozen=True)
class Seen:
    """What a decision goes by.

    `idle`: GPUs by type that nobody uses. `groups`: by id; one that was asked for and is missing is asked for
    again. `memory`: by kind and divisor of the width; where nothing was measured, groups are small. `times`: of
    epochs, the same; where nothing is known, no part is smaller than 4. `restart_s`: what a group's start
    takes. `unmeasured`: the most trials of a group of which no memory
    was measured. `ahead`: groups that may wait for a GPU where none is idle. `others_wait`: whether jobs of
    others do. `bubbles`: stages of pipelines in whose bubbles no group trains now.
    """

    now_s: float
    idle: Mapping[str, int]
    groups: Mapping[str, SeenGroup]
    memory: Mapping[tuple[Kind, int], GroupMemory] = field(default_factory=dict)
    times: Mapping[tuple[Kind, int], EpochTime] = field(default_factory=dict)
    restart_s: float = 30.0
    ahead: int = 1
    others_wait: bool = False
    unmeasured: int = UNMEASURED
    bubbles: Sequence[Place] = ()


@dataclass(frozen=True)
class Origin:
    """Where a run goes on from: the checkpoint of another group, after an epoch."""

    group: str
    run: int
    epoch: int


@dataclass(frozen=True)
class Submit:
    """Start a group as a job.

    `runs`: number -> values of its trial. `shrink`: divisor of the width. `until`: the epoch after which it ends,
    of `epochs` in all (schedules of the learning rate go by these). `weight`: of the job in the cluster, up to 1.
    `origins`: where runs go on from; the others start anew. `fused`: several trials as one; else it has one run.
    `elastic`: may have more than one GPU. `place`: the stage of a pipeline whose bubbles it trains in; "": none.
    """

    group: str
    runs: Mapping[int, Mapping[str, Value]]
    shrink: int
    until: int
    epochs: int
    weight: float
    origins: Mapping[int, Origin]
    fused: bool
    elastic: bool
    place: str = ""


@dataclass(frozen=True)
class Keep:
    """Let a group go on with these runs only."""

    group: str
    runs: tuple[int, ...]


@dataclass(frozen=True)
class Weigh:
    """Change the weight of a group's job."""

    group: str
    weight: float


@dataclass(frozen=True)
class Cancel:
    """End a group; its checkpoints stay."""

    group: str


@dataclass(frozen=True)
class Finish:
    """End the study. `values`: the best, or None; `why` then tells why there is none."""

    values: Mapping[str, Value] | None
    metric: float | None
    trial: int | None
    why: str = ""


Action = Submit | Keep | Weigh | Cancel | Finish
