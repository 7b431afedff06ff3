"""Commands of upkeep to executors, beside the launcher's. They are sent after the record is written."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.slot import Slot


@dataclass(frozen=True)
class EndProfile:
    """Give up a profile run."""

    slot: Slot
    sequence: int


@dataclass(frozen=True)
class RestartExecutor:
    """Restart the executor, which ends its workers."""


Command = EndProfile | RestartExecutor
