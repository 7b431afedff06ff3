"""Jobs that start after others: whether these have ended, and what follows if one did not succeed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...core.errors import JobStateError
from ...core.job import Phase
from ...core.job_limits import JobLimitError
from ...core.job_relations import AfterJobs
from ..jobs.awaited_jobs import Find, awaited
from ..jobs.record import JobRecord
from .reactions import Reaction, end

MOST_NAMED = 3
MOST_WALKED = 10_000


def look_after(job: JobRecord, find: Find, now: float) -> Reaction:
    """Let a job that waits for others say so, or end where one that has to succeed did not."""
    after = job.spec.after
    if after is None or job.phase is not Phase.SUBMITTED:
        return Reaction(job)
    for job_id in after.ok:
        found = find(job_id)
        if found is None or not (found.active or found.phase is Phase.SUCCEEDED):
            became = "is there no more" if found is None else f"has {_was(found)}"
            return end(
                job, Phase.CANCELLED, f"after: {job_id} {became}, and this job starts only if it succeeds", now
            )
    waits = awaited(job, find)
    if not waits:
        return Reaction(job if not job.state.reason.startswith(WAITS) else _because(job, ""))
    more = f" and {len(waits) - MOST_NAMED} more" if len(waits) > MOST_NAMED else ""
    return Reaction(_because(job, f"{WAITS}{', '.join(waits[:MOST_NAMED])}{more} to end"))


WAITS = "waiting for "


def resolved(after: AfterJobs, named: Callable[[str], Sequence[JobRecord]]) -> AfterJobs:
    """Return the same with ids in place of names.

    Args:
        named: returns the job of an id or a name, or the jobs of an array. Raises: KeyError.

    Raises: JobLimitError for one that is unknown, or that has failed already.
    """
    found: dict[str, list[str]] = {}
    for field in ("ok", "any"):
        for name in getattr(after, field):
            try:
                jobs = named(name)
            except KeyError as error:
                raise JobLimitError([f"after.{field}: {error.args[0]}"]) from None
            for job in jobs:
                if field == "ok" and not job.active and job.phase is not Phase.SUCCEEDED:
                    told = f"after.ok: {job.id} has {_was(job)}; only a job that succeeds lets this one start"
                    raise JobLimitError([told])
                found.setdefault(field, []).append(job.id)
    return AfterJobs.model_validate({field: list(dict.fromkeys(ids)) for field, ids in found.items()})


def check_circle(job_id: str, after: AfterJobs | None, find: Find) -> None:
    """Refuse a job that would wait for itself. Raises: JobStateError."""
    seen: set[str] = set()
    paths = [[job_id, one] for one in (after.all if after is not None else ())]
    while paths and len(seen) < MOST_WALKED:
        path = paths.pop()
        if path[-1] == job_id:
            circle = ", which waits for ".join(path[1:])
            raise JobStateError(f"after: {job_id} would wait for {circle}; a circle never starts")
        found = find(path[-1])
        if path[-1] in seen or found is None or not found.active or found.spec.after is None:
            continue
        seen.add(path[-1])
        paths += [[*path, one] for one in found.spec.after.all]


def _because(job: JobRecord, reason: str) -> JobRecord:
    return job if job.state.reason == reason else replace(job, state=replace(job.state, reason=reason))


def _was(job: JobRecord) -> str:
    return "been cancelled" if job.phase is Phase.CANCELLED else str(job.phase)
