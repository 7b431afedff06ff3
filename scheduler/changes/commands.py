"""Commands to executors beside the launcher's: of upkeep and of users. They follow what is written."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.slot import Slot


@dataclass(frozen=True)
class EndProfile:
    """Give up a profile run."""

    slot: Slot
    sequence: int


@dataclass(frozen=True)
class RestartExecutor:
    """Restart the executor, which ends its workers."""


@dataclass(frozen=True)
class RetireExecutor:
    """End the executor, which holds nothing; the job's next command makes another one."""


@dataclass(frozen=True)
class LeaveGpus:
    """Have the job save, stop and release all its GPUs, by the command that its record holds."""


@dataclass(frozen=True)
class EndAll:
    """End all that runs of the job at once."""


@dataclass(frozen=True)
class SaveNow:
    """Have the group that trains write a checkpoint and go on."""


@dataclass(frozen=True)
class KeepTrials:
    """Have a group train only the trials of its record on; with the others' states kept, or not."""

    with_state: bool = False


Command = EndAll | EndProfile | RestartExecutor | RetireExecutor | LeaveGpus | SaveNow | KeepTrials
