"""Waiting for jobs: a terminal shows a live table, and other outputs get a line per change."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import show
from .plain import say

if TYPE_CHECKING:
    from ..client.client import Client
    from ..core.schemas import JobRow

TERMINAL = frozenset({"succeeded", "failed", "cancelled"})


def interrupted(ids: Sequence[str]) -> str:
    """Return a sentence that says what goes on after Ctrl-C, and how to come back to it."""
    if len(ids) == 1:
        return (
            f"interrupted; {ids[0]} goes on: see `coadapt logs -f {ids[0]}`, end it with `coadapt cancel {ids[0]}`"
        )
    return (
        f"interrupted; {len(ids)} jobs go on: see `coadapt list`, end them with `coadapt cancel {' '.join(ids)}`"
    )


def wait(client: Client, ids: Sequence[str], quiet: bool = False, every_s: float = 1.0) -> list[JobRow]:
    """Wait until all jobs have ended, and return their last rows. Ctrl-C stops the waiting, not the jobs.

    Raises: UnknownJobError for a job that is not there any more, of which nobody knows how it ended.
    """
    from rich.live import Live

    from ..client.client import UnknownJobError

    console = show.console()
    rows: dict[str, JobRow] = {}
    live = Live(console=console, auto_refresh=False) if console.is_terminal and not quiet else None
    try:
        if live is not None:
            live.start()
        while True:
            found = [*client.jobs(ids=ids)]
            if live is not None:
                live.update(show.jobs_table(found, bars=True), refresh=True)
            elif not quiet:
                for line in show.change_lines(rows, found):
                    say(line, flush=True)
            rows = {row["id"]: row for row in found}
            if gone := [job_id for job_id in ids if job_id not in rows]:
                raise UnknownJobError(f"no job {gone[0]}; it was removed, and nothing tells how it ended")
            if all(row["phase"] in TERMINAL for row in found):
                return found
            time.sleep(every_s)
    finally:
        if live is not None:
            live.stop()
