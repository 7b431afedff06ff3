"""A job as a page shows it: how far it is, when it ends, why it has what it has, and what may be done. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.schemas import ExplainView, JobDetails, JobEvent, JobRow
from ..core.teams import Priority
from ..core.wording import span
from .resizes import Resize
from .words import per_cent

ENDED = ("succeeded", "failed", "cancelled")
IN_ROUNDS = ("running", "starting", "restarting", "waiting", "evicted")  # statuses of jobs of the last round


@dataclass(frozen=True)
class Action:
    """A button.

    ask: what is asked before, as it says what will be lost; "": nothing is.
    body: the JSON that goes with it; "": none does.
    """

    verb: str
    label: str
    ask: str = ""
    body: str = ""


def held(job: JobRow) -> str:
    """Return what a job has, as "4 a100", or "0.5 of 1 t4 with rigid-3"; "" for nothing."""
    if not job["gpus"]:
        return ""
    share, beside = job.get("share", 1.0), job.get("beside", [])
    part = f"{share:g} of " if share < 1 else ""
    partners = f" with {', '.join(beside)}" if beside else ""
    owners = ", which other teams leave idle" if job.get("borrows") else ""
    return f"{part}{job['gpus']} {job['gpu_type'] or 'GPUs'}{partners}{owners}"


def answer(job: JobDetails, resizes: Sequence[Resize] = ()) -> str:
    """Return the sentence that the page opens with, and why it has what it has."""
    if job["status"] in ENDED:
        why = f": {job['reason']}" if job["reason"] and job["status"] != "succeeded" else ""
        return f"It has {job['status']}{why}." if job["status"] != "cancelled" else f"It was {job['reason']}."
    done = f"{per_cent(job['fraction'])} done"
    if job["gpus"]:
        because = resizes[-1].because if resizes else ""
        return f"It is {job['status']} on {held(job)}, {done}." + (
            f" It has these as {because}." if because else ""
        )
    return f"It is {job['status']}{': ' + job['reason'] if job['reason'] else ''}."


def why(explained: ExplainView) -> tuple[str, ...]:
    """Return sentences on why it has what it has."""
    return tuple(explained["lines"])


def actions(job: JobDetails, *, may_change: bool, operator: bool = False) -> tuple[Action, ...]:
    """Return what may be done to a job by who looks at it. `operator`: who may release what one holds."""
    if not may_change:
        return ()
    if job["status"] in ENDED:
        return (Action("requeue", "Run again"),)
    found = []
    if job["status"] == "quarantined":
        found.append(Action("requeue", "Let it take part again"))
    if job.get("on_hold"):
        found += [Action("release", "Release")] if operator or not job.get("held_by") else []
    elif not job["gpus"] and job["status"] in ("waiting", "evicted"):
        found += [Action("bump", "Bring forward"), Action("hold", "Hold")]
    if job["status"] == "paused":
        found.append(Action("resume", "Resume", body="{}"))
    elif job["status"] != "leaving":
        found.append(Action("pause", "Pause"))
    lost = "Its checkpoints stay." if job["steps"] else "It has not begun."
    if job["gpus"]:
        lost = "It saves a checkpoint first, and its GPUs go to other jobs."
    return (*found, Action("cancel", "Cancel job", f"Cancel {job['name']}? {lost}"))


@dataclass(frozen=True)
class Standing:
    """How a job stands among others.

    priorities: those that it may be given; (): who looks may not change it.
    limit: its time limit in words; "": it has none. array: the id of its array; "": none.
    values: of its place in the array, and its labels.
    """

    priority: str
    priorities: tuple[str, ...]
    limit: str
    extends: bool
    array: str
    values: tuple[str, ...]
    labels: tuple[str, ...]


def standing(job: JobDetails, team: Mapping[str, Any] | None, *, may_change: bool) -> Standing:
    """Return how a job stands among others. `team`: what the file says of its team; None: it counts for none."""
    active = job["status"] not in ENDED
    every = [one.value for one in Priority]
    allowed = every if team is None else [one for one in every if one in team["priorities"]]
    limit = job["spec"].get("time_limit")
    return Standing(
        priority=job.get("priority", Priority.NORMAL.value),
        priorities=tuple(allowed) if may_change and active else (),
        limit=span(float(limit)) if limit else "",
        extends=bool(limit) and may_change,
        array=job.get("array", ""),
        values=tuple(f"{name} {value}" for name, value in job.get("array_values", {}).items()),
        labels=tuple(f"{name}: {value}" if value else name for name, value in job.get("labels", {}).items()),
    )


def newest_first(events: Sequence[JobEvent]) -> tuple[JobEvent, ...]:
    """Return the events of a job as its page lists them."""
    return tuple(reversed(events))
