"""Jobs: submitted, listed, described and changed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..core.job import JobSpec, Phase
from ..core.schemas import JobDetails, JobRow, OptionsView, ResizeRow, TimelineRow
from . import bodies
from .bodies import WITHOUT_NUL
from .context import answer, ask, change, nothing_changes, reader_of, who
from .cursors import cursor_of, number_of_place
from .problems import Problem, of_validation

router = APIRouter(prefix="/v1")
MOST_ROWS = 500
Key = Annotated[str, Header(alias="Idempotency-Key", min_length=1, max_length=200)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class JobsPage(_Body):
    """A page of jobs, newest first. `next`: the cursor of the page after it."""

    items: list[JobRow]
    next: str | None


# Of a client's own, by which it finds again what was measured of the same files.
ScriptKey = Annotated[str, Field(max_length=200, pattern=WITHOUT_NUL)]
Package = Annotated[str, Field(max_length=64)]


class NewJob(_Body):
    """A job to submit. `package`: the name of its working directory, which was put before."""

    spec: dict[str, Any]
    package: Package
    script_key: ScriptKey = ""


class ChangedJob(_Body):
    """A changed job file for a job that is resumed; nothing: the same one."""

    spec: dict[str, Any] | None = None
    package: Package | None = None
    script_key: ScriptKey = ""


class Fork(_Body):
    """A fork. `steps`: of its checkpoint; `dry_run`: only say what would happen."""

    steps: int | None = None
    spec: dict[str, Any] | None = None
    package: Package | None = None
    script_key: ScriptKey | None = None
    name: Annotated[str, Field(max_length=63)] | None = None
    dry_run: bool = False


@router.get("/jobs", responses={200: {"model": JobsPage}})
async def list_jobs(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 100,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
    phase: Annotated[list[Phase] | None, Query()] = None,
    owner: Annotated[str | None, Query(max_length=200)] = None,
    name: Annotated[str | None, Query(max_length=200)] = None,
    job_id: Annotated[list[str] | None, Query(alias="id", max_length=MOST_ROWS)] = None,
    team: Annotated[str | None, Query(max_length=63)] = None,
    array: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """Return jobs, newest first."""
    phases = sorted({one.value for one in phase or ()})
    chosen = [one for one in (team, array) if one is not None]
    query = [phases, owner, name, job_id, *chosen]
    place, reader = number_of_place(cursor, query), reader_of(request)
    rows, before = await ask(request, "page", place, limit, phases, owner, name, job_id or [], reader, team, array)
    return answer({"items": rows, "next": None if before is None else cursor_of(before, query)})


@router.post("/jobs", status_code=201)
async def submit(request: Request, key: Key) -> Response:
    """Submit a job. The same key again returns the same job."""
    body = await bodies.read(request, NewJob)
    spec = spec_text(body.spec)
    asker = who(request).user
    job_id = await change(request, "submit", spec, body.package, _own(key, asker), body.script_key, asker)
    return answer({"id": job_id}, 201)


def _own(key: str, user: str) -> str:
    """Return a key that no other user's can equal."""
    return f"{user}/{key}"


def _package(body: ChangedJob | Fork) -> str:
    """Return the package that comes with a changed spec."""
    if not body.package:
        raise Problem(422, "package: missing; a changed spec comes with the name of its package", field="package")
    return body.package


def spec_text(told: dict[str, Any], field: str = "spec") -> str:
    """Return a job's spec as JSON text. Raises: Problem, which names the field that is wrong inside of `field`."""
    try:
        return JobSpec.model_validate(told).model_dump_json(exclude_unset=True)
    except ValidationError as error:
        raise of_validation(error, field) from None


@router.get("/jobs/{job_id}", responses={200: {"model": JobDetails}})
async def describe(request: Request, job_id: str) -> Response:
    """Return all that is known of a job."""
    return answer(await ask(request, "describe", job_id))


@router.post("/jobs/{job_id}/cancel")
async def cancel(request: Request, job_id: str, now: bool = False) -> Response:
    """End a job. One that trains saves first, unless it is to end `now`."""
    return answer({"changed": await change(request, "cancel", job_id, now)})


@router.post("/jobs/{job_id}/pause")
async def pause(request: Request, job_id: str, key: Key) -> Response:
    """Hold a job."""
    return answer({"changed": await change(request, "change", job_id, "pause", key)})


@router.post("/jobs/{job_id}/requeue")
async def requeue(request: Request, job_id: str, key: Key) -> Response:
    """Have a job wait again."""
    return answer({"changed": await change(request, "change", job_id, "requeue", key)})


@router.post("/jobs/{job_id}/resume")
async def resume(request: Request, job_id: str, key: Key) -> Response:
    """Let a job go on, with a changed job file if one is given."""
    body = await bodies.read(request, ChangedJob)
    if body.spec is None:
        return answer({"changed": await change(request, "change", job_id, "resume", key)})
    told = spec_text(body.spec), _package(body), body.script_key
    return answer({"changed": await change(request, "resume_changed", job_id, *told, key)})


@router.post("/jobs/{job_id}/fork")
async def fork(request: Request, job_id: str, key: Key) -> Response:
    """Submit a job that starts from a checkpoint of another one, or say what would become of it."""
    body = await bodies.read(request, Fork)
    changed: dict[str, str] = {}
    if body.spec is not None:
        changed = {"spec": spec_text(body.spec), "package": _package(body), "script_key": body.script_key or ""}
    if body.dry_run:
        nothing_changes(request)
        return answer(await ask(request, "would_fork", job_id, body.steps, changed))
    if body.name is not None:
        changed["name"] = body.name
    asker = who(request).user
    forked = await change(request, "fork", job_id, body.steps, _own(key, asker), changed, asker)
    return answer({"id": forked}, 201)


@router.get("/jobs/{job_id}/explain")
async def explain(request: Request, job_id: str) -> Response:
    """Return why a job has what it has."""
    return answer(await ask(request, "explain", job_id, reader_of(request)))


@router.get("/jobs/{job_id}/options", responses={200: {"model": OptionsView}})
async def options(
    request: Request,
    job_id: str,
    round: Annotated[int | None, Query(ge=1, lt=2**53)] = None,
    at_s: Annotated[float | None, Query(ge=0, le=1e12, allow_inf_nan=False)] = None,
) -> Response:
    """Return which GPUs a job could have had in a round, with worth and price of each.

    Args:
        round: its number; at_s: the newest one by then, in seconds since 1970. Neither: the newest one.
    """
    return answer(await ask(request, "options", job_id, round, at_s))


@router.get("/jobs/{job_id}/resizes", responses={200: {"model": list[ResizeRow]}})
async def resizes(request: Request, job_id: str) -> Response:
    """Return when rounds gave a job other GPUs, and why."""
    return answer(await ask(request, "resizes", job_id, reader_of(request)))


@router.get("/jobs/{job_id}/timeline", responses={200: {"model": list[TimelineRow]}})
async def job_timeline(request: Request, job_id: str) -> Response:
    """Return which GPUs a job held when."""
    return answer(await ask(request, "timeline", job_id))


@router.get("/timeline", responses={200: {"model": list[TimelineRow]}})
async def timeline(request: Request) -> Response:
    """Return which GPUs each job held when."""
    return answer(await ask(request, "timeline", None, reader_of(request)))


@router.get("/trace")
async def trace(request: Request) -> Response:
    """Return the jobs that succeeded as lines of a trace."""
    lines = await ask(request, "trace")
    return Response("".join(f"{line}\n" for line in lines), media_type="application/jsonl")
