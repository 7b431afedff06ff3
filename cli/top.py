"""`coadapt top`: jobs and GPUs on one screen, refreshed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from .listing import jobs_of_now
from .plain import printable, say

if TYPE_CHECKING:
    from ..client.client import Client
    from ..core.schemas import ClusterView, JobRow

CLEAR = "\x1b[H\x1b[J"  # to the upper left corner, and away with what is below


def register(app: typer.Typer, connect: Callable[[], Client]) -> None:
    """Add the command."""

    @app.command()
    def top(
        every: Annotated[float, typer.Option(min=0.5, metavar="S", help="Seconds between two looks.")] = 2.0,
        once: Annotated[
            bool, typer.Option("--once", help="Print it once; so it does where output is piped.")
        ] = False,
    ) -> None:
        """Show jobs and GPUs on one screen, refreshed until Ctrl-C."""
        client = connect()
        if once or not sys.stdout.isatty():
            say("\n".join(_look(client, 200, None)))
            return
        try:
            while True:
                text = "\n".join(_look(client, *_size()))
                sys.stdout.write(f"{CLEAR}{text}")
                sys.stdout.flush()
                time.sleep(every)
        except KeyboardInterrupt:
            say()


def _look(client: Client, width: int, height: int | None) -> list[str]:
    now = time.time()
    jobs, missing = jobs_of_now(client, active=True, now=now)
    return screen(client.cluster(), jobs, missing, now, width, height)


def _size() -> tuple[int, int]:
    import shutil

    size = shutil.get_terminal_size()
    return size.columns, size.lines


def screen(
    view: ClusterView,
    jobs: Sequence[JobRow],
    missing: Collection[str],
    now: float,
    width: int,
    height: int | None,
) -> list[str]:
    """Return the lines of one screen: how full GPUs are by type, then jobs, those that run first.

    Args:
        missing: the kinds of jobs of which there are more, as `listing.jobs_of_now` names them.
        height: lines at most; None: as many as there are.
    """
    running = [job for job in jobs if job["gpus"]]
    waiting = [job for job in jobs if not job["gpus"]]
    clock = time.strftime("%H:%M:%S", time.localtime(now))
    more_run, more_wait = ("+" * (kind in missing) for kind in ("run", "wait"))
    count = f"{len(running)}{more_run} job{'s' * (len(running) != 1)}"
    lines = [f"{clock}  {count} with GPUs, {len(waiting)}{more_wait} without; round {view['rounds']}"]
    lines += _gpus(view)
    lines += [f"! {note}" for note in view["notes"]]
    rows = _rows([*running, *waiting], now) if jobs else ["no jobs; `coadapt submit job.yaml` submits one"]
    room = None if height is None else max(height - len(lines) - 2, 2)
    if room is not None and len(rows) > room:
        rows = [*rows[: room - 1], f"… and {len(rows) - room + 1} more jobs"]
    return [printable(line)[:width] for line in [*lines, "", *rows]]


def _gpus(view: ClusterView) -> list[str]:
    """Return a line for each GPU type: a bar of those in use, and how many that is."""
    used: dict[str, list[float]] = {}
    for node in view["nodes"]:
        of_type = used.setdefault(node["gpu_type"], [0.0, 0.0])
        of_type[0] += sum(node["jobs"].values())
        of_type[1] += node["gpus"]
    return [
        f"{gpu_type:<10} {_bar(busy / total if total else 0.0)} {busy:g} of {total:g} GPUs"
        for gpu_type, (busy, total) in sorted(used.items())
    ]


def _bar(part: float, cells: int = 30) -> str:
    full = min(round(part * cells), cells)
    return f"[{'#' * full}{'.' * (cells - full)}]"


HEAD = ("JOB", "OWNER", "STATUS", "GPUS", "BATCH", "DONE", "ENDS IN", "WHY")
WIDEST = (28, 12, 11, 16, 8, 9, 9)  # characters of each column but the last
RIGHT = (4, 5, 6)  # columns of numbers


def _rows(jobs: Sequence[JobRow], now: float) -> list[str]:
    """Return a head and a line for each job, in columns as wide as they need to be."""
    rows = [HEAD, *(_words(job, now) for job in jobs)]
    widths = [min(most, max(len(row[at]) for row in rows)) for at, most in enumerate(WIDEST)]
    return [" ".join([*(_cell(row[at], widths[at], at) for at in range(len(widths))), row[-1]]) for row in rows]


def _cell(word: str, width: int, at: int) -> str:
    return f"{word[:width]:>{width}}" if at in RIGHT else f"{word[:width]:<{width}}"


def _words(job: JobRow, now: float) -> tuple[str, ...]:
    from .show import left, progress, where

    batch = str(job["batch_size"] or "-")
    told = (job["id"], job.get("owner") or "-", job["status"], where(job), batch)
    return (*told, progress(job), left(job, now), job["reason"])
