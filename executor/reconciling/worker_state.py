"""What an executor knows of each of its workers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ...core.reports import NOTHING_PROFILED, ProfileProgress
from ...core.slot import Slot
from ..protocol.messages import Crashed, Finished, Left
from ..protocol.worker_events import Exited, Gone, Started
from .effects import Effects, KillWorker
from .timeouts import Timeouts


class Stage(StrEnum):
    """Say how far one worker is."""

    REQUESTED = "requested"  # its actor is asked for
    STARTING = "starting"  # its process runs, the script has not reached `prepare`
    READY = "ready"
    MEMBER = "member"  # was sent a `Join`
    MEASURING = "measuring"  # a profile run
    EXITED = "exited"  # its process is gone, its actor not yet


@dataclass
class WorkerState:
    """Hold what training and measuring workers have in common."""

    profile: ClassVar[bool]

    id: str
    slot: Slot
    stage: Stage = Stage.REQUESTED
    rank: int = -1
    pid: int | None = None
    host: str = ""
    retired: bool = False  # asked to go, or ended by us: its exit is no news
    killed: bool = False
    deadline_s: float = float("inf")
    overdue: str = ""  # what it failed to do when the deadline passes
    outcome: Left | Finished | Crashed | None = None

    @property
    def lives(self) -> bool:
        return self.stage is not Stage.EXITED

    def is_due(self, now: float) -> bool:
        return self.lives and now >= self.deadline_s

    def due(self, deadline_s: float, overdue: str) -> None:
        """Expect the next sign of it by a deadline; nothing more is expected of one that was killed."""
        if not self.killed:
            self.deadline_s, self.overdue = deadline_s, overdue

    def not_due(self) -> None:
        self.deadline_s, self.overdue = float("inf"), ""

    def requested(self, timeouts: Timeouts, now: float) -> None:
        self.due(now + timeouts.spawn_s, f"could not be started in {timeouts.spawn_s:g} s")

    def started(self, event: Started, timeouts: Timeouts, now: float) -> None:
        """Note its process, from whose start on time runs until `prepare`."""
        if self.stage is not Stage.REQUESTED:
            return
        self.stage, self.pid, self.host = Stage.STARTING, event.pid, event.host
        self.due(now + timeouts.start_s, f"did not reach coadapt.prepare in {timeouts.start_s:g} s")

    def ended_script(self, event: Left | Finished | Crashed, timeouts: Timeouts, now: float) -> None:
        """Keep the first outcome; the process has to exit soon."""
        self.outcome = self.outcome or event
        self.due(now + timeouts.exit_s, "did not exit")

    def kill(self, effects: Effects, *, retire: bool = True) -> None:
        """End it at once. With `retire` its exit says nothing about the job."""
        self.retired = self.retired or retire
        self.not_due()
        if self.lives and not self.killed:
            self.killed = True
            effects.add(KillWorker(self.id))


@dataclass
class TrainingWorker(WorkerState):
    """Add what generations a worker has seen, and its steps."""

    profile: ClassVar[bool] = False

    sent: int = 0  # generation of the last `Join`
    joined: int = 0  # generation of the last `Joined`
    broken: int = 0  # generation of the last `Broken`
    joined_steps: int = 0
    steps: int = 0
    stride: int = 0  # most steps between two signs of progress
    heard_s: float = 0.0  # last sign of progress
    ready_s: float = 0.0

    def progressed(self, steps: int, now: float) -> None:
        self.heard_s = now
        self.stride = max(self.stride, steps - self.steps)
        self.steps = max(self.steps, steps)


@dataclass
class ProfileWorker(WorkerState):
    """Add what a worker measures in its profile run."""

    profile: ClassVar[bool] = True

    sequence: int = 0  # of its run
    progress: ProfileProgress = NOTHING_PROFILED  # earlier processes of the run included
    initial_batch_size: int | None = None  # the script's own; None: it has not reached `prepare`
    trying: int | None = None  # local batch size being measured
    replaced: bool = False  # another process goes on with the run

    @property
    def tries_less_than_the_script(self) -> bool:
        """Return whether it measures a smaller batch than the script's own, at which training may not fail."""
        if self.trying is None or self.initial_batch_size is None:
            return False
        return self.trying < self.initial_batch_size


def reason_of(ending: Exited | Gone) -> str:
    """Return how a process ended, in words that follow "the worker"."""
    return ending.reason or "was lost with its worker"


def script_error(worker: WorkerState, ending: Exited | Gone, script: str) -> Crashed | None:
    """Return the error that the script itself is at fault for; None where it is not."""
    if isinstance(worker.outcome, Crashed):
        return worker.outcome
    if isinstance(worker.outcome, Left | Finished) or isinstance(ending, Gone) or ending.code < 0:
        return None
    if ending.code == 0:
        return Crashed(f"{script} ended early, with status 0", "")
    return Crashed(f"{script} {ending.reason}", "")
