"""The phases of a job, and which may follow which (Sia, figure 3.2). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...core.job import JobState, Phase

_ENDS = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED})
NEXT: Mapping[Phase, frozenset[Phase]] = {
    Phase.SUBMITTED: frozenset({Phase.PROFILING, Phase.QUEUED, Phase.FAILED, Phase.CANCELLED}),
    # A user may give a paused job another file, with which it is admitted anew.
    Phase.PROFILING: frozenset({Phase.QUEUED, Phase.FAILED, Phase.CANCELLED, Phase.SUBMITTED}),
    # A job may end while it leaves its GPUs, hence QUEUED -> SUCCEEDED.
    Phase.QUEUED: frozenset({Phase.RUNNING, Phase.PROFILING, Phase.SUBMITTED}) | _ENDS,
    Phase.RUNNING: frozenset({Phase.QUEUED, Phase.SUBMITTED}) | _ENDS,
    # A user may have an ended job run again. It is admitted anew, and goes on from its last checkpoint.
    Phase.SUCCEEDED: frozenset({Phase.SUBMITTED}),
    Phase.FAILED: frozenset({Phase.SUBMITTED}),
    Phase.CANCELLED: frozenset({Phase.SUBMITTED}),
}


class IllegalTransition(ValueError):
    """A phase that cannot follow the job's present one."""


def check(before: Phase, after: Phase) -> None:
    """Raise IllegalTransition unless `after` equals or may follow `before`."""
    if after is not before and after not in NEXT[before]:
        allowed = ", ".join(sorted(NEXT[before]))
        raise IllegalTransition(f"phase: {after} cannot follow {before}; allowed: {allowed}")


def advance(state: JobState, phase: Phase, now: float, reason: str = "") -> JobState:
    """Return the state in its new phase, with the times when the job first queued, first started and ended.

    Raises: IllegalTransition.
    """
    check(state.phase, phase)
    queued = now if phase is Phase.QUEUED and state.queued_s is None else state.queued_s
    started = state.started_s
    if phase is Phase.RUNNING and started is None:
        started = now
    ended = now if state.finished_s is None else state.finished_s
    finished = ended if phase.is_terminal else None
    return replace(state, phase=phase, reason=reason, queued_s=queued, started_s=started, finished_s=finished)
