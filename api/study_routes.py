"""Studies: begun, listed, described and cancelled."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from ..core.identity import Role
from ..tuning.live.check import job_problem
from ..tuning.study_file import StudyFileError, from_values
from . import bodies
from .context import answer, change, context, nothing_changes, who
from .job_routes import Key, NewJob, spec_text
from .problems import Problem
from .studies import Studies

router = APIRouter(prefix="/v1/studies")
StudyId = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}:[0-9]{1,9}$")]


class NewStudy(BaseModel):
    """A study: the fields of its file, and the job that each of its trials is of. `dry_run`: only check them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    study: dict[str, Any]
    job: NewJob
    dry_run: bool = False


@router.post("", status_code=201)
async def begin(request: Request, key: Key) -> Response:
    """Begin a study. The same key again returns the same one."""
    body, asker = await bodies.read(request, NewStudy), who(request)
    try:
        study = from_values(body.study)
    except StudyFileError as error:
        raise Problem(422, str(error), field="study") from None
    spec_text(body.job.spec, "job.spec")
    if problem := job_problem(study, body.job.spec):
        raise Problem(422, problem, field="job")
    studies = _studies(request)
    told = body.job.model_dump()
    known = None if body.dry_run else await asyncio.to_thread(studies.known, key, asker.user)
    if known is not None:
        nothing_changes(request)
        return answer({"id": known}, 201)
    if problem := await asyncio.to_thread(studies.deadline_problem, study, told, asker.user):
        raise Problem(422, problem, field="study")
    if body.dry_run:
        nothing_changes(request)
        return answer({"id": None})
    token = await change(request, "issue_token", asker.user, f"study {study.name}", None)
    id = await asyncio.to_thread(
        studies.begin, study.name, asker.user, time.time(), body.study, told, key, token["token"]
    )
    return answer({"id": id}, 201)


@router.get("")
async def rows(request: Request) -> Response:
    """Return one's own studies; to operators, those of all."""
    asker = who(request)
    owner = None if asker.role is Role.OPERATOR else asker.user
    return answer(await asyncio.to_thread(_studies(request).rows, owner))


@router.get("/{study}")
async def view(request: Request, study: StudyId) -> Response:
    """Return all that is known of a study: its trials, their curves, and what it found."""
    _check_own(request, study)
    return answer(await asyncio.to_thread(_studies(request).view, study))


@router.post("/{study}/cancel")
async def cancel(request: Request, study: StudyId) -> Response:
    """End a study and its jobs."""
    _check_own(request, study)
    return answer({"changed": await asyncio.to_thread(_studies(request).cancel, study)})


def _check_own(request: Request, study: str) -> None:
    asker = who(request)
    try:
        owner = _studies(request).owner(study)
    except KeyError:
        raise Problem(404, f"no study {study}", hidden=True) from None
    if asker.role is not Role.OPERATOR and owner != asker.user:
        raise Problem(404, f"no study {study}", hidden=True)


def _studies(request: Request) -> Studies:
    found = context(request).studies
    if found is None:
        raise Problem(503, "studies: this API keeps none")
    return found
