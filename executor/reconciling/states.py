"""What the training group of a job is doing: one class per state, with what is true in that state alone.

    Idle -> Starting -> Forming -> Training -> Stopping -> Idle
    Training, Forming or Stopping -> Recovering (a member is lost) -> Forming
    Training, Forming or Stopping -> Finishing (the script has come to its end) -> Ended
    any state -> Starting (cold: all workers are ended) or Ended

`transitions.py` and `toward_targets.py` make these changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from ..protocol.messages import Finished
from .effects import Send

NEVER = float("inf")


@dataclass(frozen=True)
class Group:
    """Describe a process group that trains, or is about to."""

    generation: int
    ranks: tuple[str, ...]  # worker ids
    warm: bool  # some process was in an earlier group
    lost_one: bool = False  # a member was lost: what fails next may follow from that
    finished: Finished | None = None  # how the script ended: rank 0's word, else the first


@dataclass(frozen=True)
class Pause:
    """Say why nothing trains; each state hands it on until a group trains again."""

    since_s: float | None = None  # None: no group has trained yet
    recovered: bool = False  # a worker was lost
    retried: bool = False  # the script failed

    def begun(self, now: float) -> Pause:
        """Return the pause, which begins now unless it has begun before."""
        return self if self.since_s is not None else replace(self, since_s=now)


@dataclass(frozen=True)
class Idle:
    """Wait for slots: there is no group and nothing to start."""

    name: ClassVar[str] = "idle"
    deadline_s: ClassVar[float] = NEVER
    pause: Pause = Pause()


@dataclass(frozen=True)
class Starting:
    """Start workers; nothing trains."""

    name: ClassVar[str] = "starting"
    deadline_s: ClassVar[float] = NEVER
    pause: Pause


@dataclass(frozen=True)
class Forming:
    """Wait until everyone has joined; `Join` is sent."""

    name: ClassVar[str] = "forming"
    group: Group
    pause: Pause
    deadline_s: float
    held: Send | None = None  # the `Join` of rank 0, while outputs of the last rank 0 are still to come


@dataclass(frozen=True)
class Training:
    """Train, with newcomers starting beside the group if it is to grow or move."""

    name: ClassVar[str] = "training"
    pause: ClassVar[Pause] = Pause()
    deadline_s: ClassVar[float] = NEVER
    group: Group


@dataclass(frozen=True)
class Recovering:
    """Wait until the survivors of a lost member have undone their step."""

    name: ClassVar[str] = "recovering"
    group: Group
    pause: Pause
    deadline_s: float


@dataclass(frozen=True)
class Stopping:
    """Wait until the group has saved and ended."""

    name: ClassVar[str] = "stopping"
    group: Group
    pause: Pause
    deadline_s: float


@dataclass(frozen=True)
class Finishing:
    """Wait for the others after a member has reached the end of the script."""

    name: ClassVar[str] = "finishing"
    group: Group
    pause: Pause
    deadline_s: float


class JobEnd(StrEnum):
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Ended:
    """Start nothing any more; the workers that are left are on their way out."""

    pause: ClassVar[Pause] = Pause()
    deadline_s: ClassVar[float] = NEVER
    how: JobEnd

    @property
    def name(self) -> str:
        return self.how.value


Ungrouped = Idle | Starting
Grouped = Forming | Training | Recovering | Stopping | Finishing
State = Ungrouped | Grouped | Ended
