"""The pages, made of the answers that programs get, too."""

from __future__ import annotations

import logging
import time
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ..core.errors import StateError
from ..core.identity import Role
from ..core.job import Phase
from ..core.wording import in_words, span
from ..dashboard import job_page
from ..dashboard.cluster_page import cluster_page
from ..dashboard.colours import colours_of
from ..dashboard.rendering import assets
from ..dashboard.words import count, short
from .access import changes
from .cluster_routes import rounds_for, view_for
from .context import ask, reader_of, who
from .cursors import cursor_of, number_of_place
from .pages import shown
from .problems import Problem

log = logging.getLogger(__name__)

router = APIRouter(include_in_schema=False)
ACTIVE = [phase.value for phase in Phase if not phase.is_terminal]
ENDED = [phase.value for phase in Phase if phase.is_terminal]
ROWS, QUEUE_ROWS, NAMED = 50, 10, 500
FOR_GOOD = "public, max-age=31536000, immutable"


@router.get("/static/{path:path}")
async def static(path: str) -> Response:
    """Return a file that pages load."""
    if (found := assets().get(path)) is None:
        raise Problem(404, f"there is no /static/{path} here")
    content, media, _ = found
    return Response(content, media_type=media, headers={"Cache-Control": FOR_GOOD})


@router.get("/")
async def cluster(request: Request) -> Response:
    """Show what the cluster does."""
    view = await view_for(request)
    health = await ask(request, "health", reader_of(request) is not None)
    statuses = (await ask(request, "figures"))["jobs"]
    rows, _ = await ask(request, "page", None, NAMED, ACTIVE, None, None, [], reader_of(request))
    names = {row["id"]: row["name"] for row in rows}
    waiting = [row for row in reversed(rows) if row["status"] in ("waiting", "evicted")][:QUEUE_ROWS]
    return shown(request, "cluster", page=cluster_page(view, health, statuses, waiting, names))


@router.get("/jobs")
async def jobs(
    request: Request,
    which: Annotated[str, Query(pattern="^(active|ended|all)$")] = "active",
    name: Annotated[str, Query(max_length=200)] = "",
    owner: Annotated[str, Query(max_length=200)] = "",
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> Response:
    """Show jobs, the newest first. Filters are part of the address."""
    phases = {"active": ACTIVE, "ended": ENDED}.get(which, [])
    query = [which, name, owner]
    place = number_of_place(cursor, query)
    rows, before = await ask(
        request, "page", place, ROWS, phases, owner or None, name or None, [], reader_of(request)
    )
    told = {"which": which, "name": name, "owner": owner}
    older = None if before is None else f"/jobs?{urlencode({**told, 'cursor': cursor_of(before, query)})}"
    word = {"active": "active ", "ended": "ended "}.get(which, "")
    number = f"{len(rows)} or more" if older else str(len(rows))
    answer = f"{number} {word}{'job' if number == '1' else 'jobs'}" if rows else f"No {word}job"
    filtered = bool(name or owner or which == "ended")
    return shown(
        request,
        "jobs",
        answer=f"{answer}.",
        rows=rows,
        next=older,
        filters=told,
        colours=colours_of(await _types(request)),
        filtered=filtered,
    )


@router.get("/jobs/{job_id}")
async def job(request: Request, job_id: str) -> Response:
    """Show a job."""
    details = await ask(request, "describe", job_id)
    may_change = who(request).role is not Role.VIEWER and changes(who(request), details.get("owner", ""))
    return shown(
        request,
        "job",
        job=details,
        answer=job_page.answer(details),
        why=await _why(request, job_id),
        actions=job_page.actions(details, may_change=may_change),
        events=job_page.newest_first(details["events"]),
        numbers=_numbers(details),
        colours=colours_of(await _types(request)),
    )


async def _why(request: Request, job_id: str) -> tuple[str, ...]:
    """Return why a job has what it has. A fault of the policy does not keep the rest from being shown."""
    try:
        return job_page.why(await ask(request, "explain", job_id))
    except (StateError, KeyError):
        raise
    except Exception as error:
        log.exception("explain %s", job_id)
        return (f"It cannot be explained: {in_words(error)}",)


def _numbers(details: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the figures of a job as its page lists them."""
    known = [
        ("owner", details.get("owner") or "–"),
        ("batch size", details["batch_size"]),
        ("learning rate", details["lr"]),
        ("epoch", details["epoch"] and f"{details['epoch']} of {details['epochs'] or '?'}"),
        ("steps", details["steps"] or None),
        ("resizes", details["resizes"] or None),
        ("failures", details["failures"] or None),
        *list(details["metrics"].items())[:20],
    ]
    return [
        (name, value if isinstance(value, str) else short(value)) for name, value in known if value is not None
    ]


@router.get("/timeline")
async def timeline(request: Request) -> Response:
    """Show all jobs over time."""
    return shown(request, "timeline", colours=colours_of(await _types(request)))


@router.get("/rounds")
async def rounds(request: Request, cursor: Annotated[str | None, Query(max_length=500)] = None) -> Response:
    """Show what the last rounds decided."""
    found = await rounds_for(request, number_of_place(cursor, None), ROWS, None)
    older = None if found["next"] is None else f"/rounds?{urlencode({'cursor': cursor_of(found['next'], None)})}"
    rows = found["rows"]
    answer = "No round was yet."
    if rows:
        ago = span(max(time.time() - rows[0]["time_s"], 0.0))
        moved = sum(sum(row["counts"].get(kind, 0) for kind in ("placed", "moved", "stopped")) for row in rows)
        changed = count(moved, "placement")
        answer = f"The last round was {ago} ago; the last {len(rows)} changed {changed}."
    return shown(request, "rounds", rows=rows, next=older, answer=answer)


@router.get("/nodes")
async def nodes(request: Request) -> Response:
    """Show nodes, and to operators what may be done with them."""
    found = sorted((await view_for(request))["nodes"], key=lambda node: (node["gpu_type"], node["machine"]))
    closed = sum(bool(node["closed"]) for node in found)
    gpus = sum(node["gpus"] for node in found)
    answer = f"{count(len(found), 'node')} with {count(gpus, 'GPU')}" + (f"; {closed} closed." if closed else ".")
    return shown(
        request,
        "nodes",
        nodes=found,
        answer=answer if found else "No node is here yet.",
        operator=who(request).role is Role.OPERATOR,
        colours=colours_of(await _types(request)),
    )


async def _types(request: Request) -> list[str]:
    """Return the cluster's GPU types, by which each has the same colour on every page."""
    view = await ask(request, "cluster", reader_of(request))
    return [row["gpu_type"] for row in (*view["nodes"], *view["asleep"])]
