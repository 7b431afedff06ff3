"""Care of the scheduler: settings, backups, retention; and the history of a job's metrics."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from ..core.schemas import BackupView, MetricsView, PrunedRow, SettingRow
from . import bodies
from .context import answer, ask, change, nothing_changes, who

router = APIRouter(prefix="/v1")


class Pruning(BaseModel):
    """What `POST /v1/prune` takes."""

    model_config = ConfigDict(extra="forbid")

    dry_run: bool = False


class Wanted(BaseModel):
    """What `PATCH /v1/settings` takes: values by name; `retention.event_days` names a part of a setting."""

    model_config = ConfigDict(extra="allow")


@router.get("/jobs/{job_id}/metrics", responses={200: {"model": MetricsView}})
async def metrics(request: Request, job_id: str) -> Response:
    """Return the history of a job's metrics."""
    return answer(await ask(request, "metrics", job_id))


@router.get("/settings/rows", responses={200: {"model": list[SettingRow]}})
async def settings_rows(request: Request) -> Response:
    """Return each setting with its default, and whether it may change now."""
    return answer(await ask(request, "settings_rows"))


@router.patch("/settings")
async def change_settings(request: Request) -> Response:
    """Change settings from the next round on, and return the names of those that are new."""
    body = await bodies.read(request, Wanted)
    wanted: dict[str, Any] = dict(body.model_extra or {})
    return answer({"changed": await change(request, "change_settings", wanted, who(request).user)})


@router.post("/backups", responses={200: {"model": BackupView}})
async def backup(request: Request) -> Response:
    """Write a backup of the job store, and return where it is."""
    return answer(await change(request, "backup"))


@router.get("/backups/{name}")
async def backup_part(request: Request, name: str, offset: Annotated[int, Query(ge=0, le=2**53)] = 0) -> Response:
    """Return a part of a backup from an offset on."""
    return Response(await ask(request, "backup_part", name, offset), media_type="application/octet-stream")


@router.post("/prune", responses={200: {"model": list[PrunedRow]}})
async def prune(request: Request) -> Response:
    """Remove what retention does not keep, or with `dry_run` say what that is."""
    body = await bodies.read(request, Pruning)
    if body.dry_run:
        nothing_changes(request)
        return answer(await ask(request, "prune", True))
    return answer(await change(request, "prune"))
