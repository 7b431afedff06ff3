"""How jobs stand among others: priority, hold, release, bump, more time, and trials that go on."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from ..core.identity import Role
from ..core.spans import MOST_S
from ..core.teams import Priority
from ..core.trials import MOST_TRIALS
from . import bodies
from .context import answer, change, who
from .job_routes import Key

router = APIRouter(prefix="/v1/jobs/{job_id}")


class NewPriority(BaseModel):
    """What a job's progress is worth."""

    model_config = ConfigDict(extra="forbid")

    priority: Priority


class NewWeight(BaseModel):
    """What a job's progress is worth beside that of others with its priority."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    weight: Annotated[float, Field(ge=0.01, le=1)]


class MoreTime(BaseModel):
    """By how many seconds a time limit is moved; below 0: back."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    by_s: Annotated[float, Field(ge=-MOST_S, le=MOST_S)]


class KeptTrials(BaseModel):
    """The trials that a group trains on, by number, and whether the others' states stay in its checkpoint."""

    model_config = ConfigDict(extra="forbid")

    trials: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1, max_length=MOST_TRIALS)]
    with_state: bool = False


@router.post("/priority")
async def priority(request: Request, job_id: str, key: Key) -> Response:
    """Let the progress of a job be worth more or less from the next round on."""
    body = await bodies.read(request, NewPriority)
    return answer({"changed": await change(request, "set_priority", job_id, body.priority.value, key)})


@router.post("/weight")
async def weight(request: Request, job_id: str, key: Key) -> Response:
    """Let the progress of a job be worth more or less beside others of its priority."""
    body = await bodies.read(request, NewWeight)
    return answer({"changed": await change(request, "set_weight", job_id, body.weight, key)})


@router.post("/hold")
async def hold(request: Request, job_id: str, key: Key) -> Response:
    """Let a job start on no GPUs until it is released; what it has it keeps."""
    return answer({"changed": await change(request, "hold", job_id, key, _operator(request))})


@router.post("/release")
async def release(request: Request, job_id: str, key: Key) -> Response:
    """Let a job that is on hold start again. What an operator holds only an operator releases."""
    return answer({"changed": await change(request, "release", job_id, key, _operator(request))})


def _operator(request: Request) -> str:
    """Return who asks as an operator; "": somebody else does."""
    asker = who(request)
    return asker.user if asker.role is Role.OPERATOR else ""


@router.post("/bump")
async def bump(request: Request, job_id: str, key: Key) -> Response:
    """Let a job come first among those of its user that wait."""
    return answer({"changed": await change(request, "bump", job_id, key)})


@router.post("/extend")
async def extend(request: Request, job_id: str, key: Key) -> Response:
    """Move the time limit of a job."""
    body = await bodies.read(request, MoreTime)
    return answer({"changed": await change(request, "extend", job_id, body.by_s, key)})


@router.post("/keep")
async def keep(request: Request, job_id: str, key: Key) -> Response:
    """Let a group train only some of its trials on."""
    body = await bodies.read(request, KeptTrials)
    return answer({"changed": await change(request, "keep_trials", job_id, body.trials, body.with_state, key)})
