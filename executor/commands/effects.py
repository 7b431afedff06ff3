"""What a command's reconciler asks its shell to do, in order."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.command_events import CommandOrder
from ..protocol.job_events import ExecutorEvent
from .crews import CrewPlan


@dataclass(frozen=True)
class StartCrew:
    worker: str
    plan: CrewPlan


@dataclass(frozen=True)
class SendCrew:
    worker: str
    order: CommandOrder


@dataclass(frozen=True)
class KillCrew:
    """End the worker and all its processes at once; `Gone` follows."""

    worker: str


@dataclass(frozen=True)
class TellService:
    event: ExecutorEvent


Effect = StartCrew | SendCrew | KillCrew | TellService
