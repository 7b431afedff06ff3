"""What a reconciler asks its shell to do, in order."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.reports import NOTHING_PROFILED, ProfileProgress
from ...core.slot import Slot
from ..protocol.job_events import ExecutorEvent
from ..protocol.messages import Command


@dataclass(frozen=True)
class StartWorker:
    worker: str
    slot: Slot
    profile: bool
    rank: int  # expected; `Join` has the last word
    world_size: int
    progress: ProfileProgress = NOTHING_PROFILED  # of the earlier processes of its profile run


@dataclass(frozen=True)
class Send:
    worker: str
    command: Command


@dataclass(frozen=True)
class KillWorker:
    """End the worker's process and actor at once; `Gone` follows."""

    worker: str


@dataclass(frozen=True)
class KeepProfile:
    """Add what a profile run found to the job's measurements; the run is over."""

    gpu_type: str
    progress: ProfileProgress


@dataclass(frozen=True)
class Tell:
    """Send an event to the scheduler service."""

    event: ExecutorEvent


Effect = StartWorker | Send | KillWorker | KeepProfile | Tell


class Effects:
    """Collect effects until the shell takes them."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []

    def add(self, effect: Effect) -> None:
        self._effects.append(effect)

    def send(self, worker: str, command: Command) -> None:
        self.add(Send(worker, command))

    def tell(self, event: ExecutorEvent) -> None:
        self.add(Tell(event))

    def take(self) -> list[Effect]:
        """Return everything since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects
