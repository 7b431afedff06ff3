"""The phases of a job's life."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """Where a job is in its life (Sia, figure 3.2)."""

    SUBMITTED = "submitted"  # stored, nothing done yet
    PROFILING = "profiling"  # measuring one replica on each GPU type
    QUEUED = "queued"  # can run, has no GPUs
    RUNNING = "running"  # has GPUs (starting, training or being resized)
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in _TERMINAL


_TERMINAL = (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED)
