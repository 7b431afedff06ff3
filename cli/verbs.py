"""Doing one of the verbs that change jobs to several of them: pause, resume, requeue."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..core.errors import JobStateError
from .exit_codes import Exit

NOTHING_TO_DO = {"paused": "was paused before", "resumed": "was resumed before", "requeued": "waits already"}


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
            print(f"coadapt: {error}", file=sys.stderr)
            continue
        if show is None:
            print(f"{job_id} {done if rows[-1][done] else NOTHING_TO_DO[done]}")
    if show is not None:
        show(rows)
    return Exit.USAGE if any("refused" in row for row in rows) else Exit.OK
