"""Which jobs `coadapt list` shows: those of interest now, as many as a person reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..core.phase import Phase

if TYPE_CHECKING:
    from ..client.client import Client
    from ..core.schemas import JobRow

HOLDING, WAITING = (Phase.PROFILING, Phase.RUNNING), (Phase.SUBMITTED, Phase.QUEUED)
ENDED = tuple(phase for phase in Phase if phase.is_terminal)
MOST_HOLDING, MOST_WAITING, MOST_ENDED = 100, 50, 20
DAY_S = 86_400.0


def every_job(client: Client, active: bool) -> list[JobRow]:
    """Return all jobs, or all that have not ended, in order of submission."""
    phases = (*HOLDING, *WAITING) if active else tuple(Phase)
    return list(client.jobs(phases=phases))


def jobs_of_now(client: Client, active: bool, now: float) -> tuple[list[JobRow], list[str]]:
    """Return the newest jobs of each kind, in order of submission, and the kinds of which some are missing.

    Args:
        active: whether none are asked for that have ended. Else those of the last day are.
    """
    kinds: list[tuple[str, tuple[Phase, ...], int]] = [
        ("run", HOLDING, MOST_HOLDING),
        ("wait", WAITING, MOST_WAITING),
    ]
    kinds += [] if active else [("ended earlier", ENDED, MOST_ENDED)]
    rows, missing = dict[str, "JobRow"](), list[str]()
    for kind, phases, most in kinds:
        found = client.jobs(phases=phases, most=most + 1)
        kept = _recent(found[-most:], now)
        rows |= {row["id"]: row for row in kept}  # a job may end between two answers
        missing += [kind] * (len(kept) < len(found))
    return sorted(rows.values(), key=lambda row: row["submitted_s"]), missing


def _recent(jobs: Iterable[JobRow], now: float) -> list[JobRow]:
    return [job for job in jobs if job["finished_s"] is None or job["finished_s"] >= now - DAY_S]
