"""Doing one of the verbs that change jobs to several of them: cancel, pause, resume, requeue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import JobStateError
from ..core.phase import Phase
from .exit_codes import Exit
from .plain import say

if TYPE_CHECKING:
    from ..client.client import Client

NOTHING_TO_DO = {"paused": "was paused before", "resumed": "was resumed before", "requeued": "waits already"}
WAS_SO = "was so before"


def each(
    ids: Sequence[str], verb: Callable[[str], bool], done: str, show: Callable[[Any], None] | None = None
) -> Exit:
    """Do a verb to each job, and tell of each what became of it. The others follow one that refuses.

    Args:
        done: what a job is then, as "paused".
        show: takes the rows of all jobs instead of lines.
    """
    rows: list[dict[str, Any]] = []
    for job_id in dict.fromkeys(ids):
        try:
            rows.append({"id": job_id, done: verb(job_id)})
        except JobStateError as error:
            rows.append({"id": job_id, done: False, "refused": str(error)})
            say(f"coadapt: {error}", error=True)
            continue
        if show is None:
            say(f"{job_id} {done if rows[-1][done] else NOTHING_TO_DO.get(done, WAS_SO)}")
    if show is not None:
        show(rows)
    return Exit.USAGE if any("refused" in row for row in rows) else Exit.OK


def cancelled(
    client: Client, ids: Sequence[str], *, now: bool = False, show: Callable[[Any], None] | None = None
) -> None:
    """Cancel jobs, and tell of each whether it has ended or saves first.

    Args:
        now: whether nothing is saved.
        show: takes the rows of all jobs instead of lines.
    """
    done = {job_id: client.cancel(job_id, now=now) for job_id in ids}
    left = {row["id"]: row for row in client.jobs(ids=ids)}
    rows = []
    for job_id, changed in done.items():
        saving = job_id in left and not Phase(left[job_id]["phase"]).is_terminal
        rows.append({"id": job_id, "cancelled": changed, "saving": saving})
        if show is None and saving:
            say(f"{job_id} is told to save and end; `coadapt cancel --now {job_id}` does not wait for that")
        elif show is None:
            say(f"{job_id} cancelled" if changed else f"{job_id} had ended before")
    if show is not None:
        show(rows)
