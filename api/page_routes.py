"""The pages of the cluster and its jobs, made of the answers that programs get, too."""

from __future__ import annotations

import logging
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ..core.errors import StateError
from ..core.identity import Role
from ..core.job import Phase
from ..core.schemas import OptionsView
from ..core.wording import in_words
from ..dashboard import job_page
from ..dashboard.cluster_page import cluster_page
from ..dashboard.rendering import assets
from ..dashboard.resizes import resizes
from ..dashboard.sparks import curve
from ..dashboard.why_grid import Grid, why_grid
from ..dashboard.words import short
from .access import changes
from .cluster_routes import view_for
from .context import ask_shared, reader_of, who
from .cursors import cursor_of, number_of_place
from .pages import colours, shown
from .problems import Problem

log = logging.getLogger(__name__)

router = APIRouter(include_in_schema=False)
ACTIVE = [phase.value for phase in Phase if not phase.is_terminal]
ENDED = [phase.value for phase in Phase if phase.is_terminal]
ROWS = 50
PRICES_S = 20.0  # so old the curve of a day may be
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
    view = await view_for(request, await ask_shared(request, "team_names"))
    health = await ask_shared(request, "health", reader_of(request) is not None)
    statuses = (await ask_shared(request, "figures"))["jobs"]
    jobs = await ask_shared(request, "board", reader_of(request))
    prices = await ask_shared(request, "prices", None, keep_s=PRICES_S)
    return await shown(request, "cluster", page=cluster_page(view, health, statuses, jobs, prices))


@router.get("/jobs")
async def jobs(
    request: Request,
    which: Annotated[str, Query(pattern="^(active|ended|all)$")] = "active",
    name: Annotated[str, Query(max_length=200)] = "",
    owner: Annotated[str, Query(max_length=200)] = "",
    team: Annotated[str, Query(max_length=200)] = "",
    array: Annotated[str, Query(max_length=200)] = "",
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> Response:
    """Show jobs, the newest first, and of each array one line. Filters are part of the address.

    Args:
        array: the jobs of one array, a line each.
    """
    phases = {"active": ACTIVE, "ended": ENDED}.get(which, [])
    query = [which, name, owner, team, array]
    place, reader, chosen = number_of_place(cursor, query), reader_of(request), (owner or None, name or None)
    if array:
        asked: tuple[Any, ...] = ("page", place, ROWS, phases, *chosen, [], reader, team or None, array)
    else:
        asked = ("listed", place, ROWS, phases, *chosen, reader, team or None)
    rows, before = await ask_shared(request, *asked)
    goodputs = await ask_shared(request, "goodputs", [row["id"] for row in rows])
    told = {"which": which, "name": name, "owner": owner, "team": team, "array": array}
    older = None if before is None else f"/jobs?{urlencode({**told, 'cursor': cursor_of(before, query)})}"
    word = {"active": "active ", "ended": "ended "}.get(which, "")
    jobs = sum(row.get("elements", 1) for row in rows)
    number = f"{jobs} or more" if older else str(jobs)
    answer = f"{number} {word}{'job' if number == '1' else 'jobs'}" if rows else f"No {word}job"
    answer += f" of the array {array}" if array else ""
    filtered = bool(name or owner or team or array or which == "ended")
    return await shown(
        request,
        "jobs",
        answer=f"{answer}.",
        rows=rows,
        next=older,
        filters=told,
        curves={job_id: (curve(values), short(values[-1])) for job_id, values in goodputs.items()},
        colours=await colours(request),
        filtered=filtered,
        team_names=await ask_shared(request, "team_names"),
    )


@router.get("/jobs/{job_id}")
async def job(
    request: Request,
    job_id: str,
    round: Annotated[int | None, Query(ge=1, lt=2**53)] = None,
    at: Annotated[float | None, Query(ge=0, le=1e12, allow_inf_nan=False)] = None,
) -> Response:
    """Show a job, and why it has what it has; or why it had what it had, in a `round` or `at` a moment."""
    details = await ask_shared(request, "describe", job_id)
    may_change = who(request).role is not Role.VIEWER and changes(who(request), details.get("owner", ""))
    past = round is not None or at is not None
    teams = (await ask_shared(request, "teams", reader_of(request)))["teams"]
    default = next((name for name, one in teams.items() if one["default"]), "")
    team = details.get("team", "") if details.get("team", "") in teams else default
    changes_of_gpus = resizes(await ask_shared(request, "resizes", job_id, reader_of(request)))
    return await shown(
        request,
        "job",
        job=details,
        answer=job_page.answer(details, changes_of_gpus),
        why=() if past else await _why(request, job_id),
        grid=await _grid(request, details, round, at),
        past=past,
        resizes=changes_of_gpus,
        actions=job_page.actions(details, may_change=may_change, operator=who(request).role is Role.OPERATOR),
        may_change=may_change,
        may_fork=who(request).role is not Role.VIEWER and bool(details["steps"]),  # who sees it, as its team does
        events=job_page.newest_first(details["events"]),
        numbers=_numbers(details),
        team=team,
        standing=job_page.standing(details, teams.get(team), may_change=may_change),
        colours=await colours(request),
    )


async def _grid(request: Request, details: dict[str, Any], round: int | None, at: float | None) -> Grid:
    """Return the options of a round; without one, of the newest that a job took part in, or of none."""
    if round is None and at is None and details["status"] not in job_page.IN_ROUNDS:
        return why_grid(OptionsView(round=None, time_s=None, of_round=None, prices={}, options=[]))
    return why_grid(await ask_shared(request, "options", details["id"], round, at))


async def _why(request: Request, job_id: str) -> tuple[str, ...]:
    """Return why a job has what it has. A fault of the policy does not keep the rest from being shown."""
    try:
        return job_page.why(await ask_shared(request, "explain", job_id, reader_of(request)))
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
    return await shown(request, "timeline", colours=await colours(request))
