"""Teams: shown to all, and applied by operators."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from ..core.schemas import TeamsChange, TeamsView
from . import bodies
from .context import answer, ask, change, context, nothing_changes, reader_of, who

router = APIRouter(prefix="/v1")


class NewTeams(BaseModel):
    """A file of teams. `version`: of those it was compared with; `dry_run`: only say what would change."""

    model_config = ConfigDict(extra="forbid", strict=True)

    file: dict[str, Any]
    version: Annotated[str, Field(max_length=64)] | None = None
    dry_run: bool = False


@router.get("/teams", responses={200: {"model": TeamsView}})
async def teams(request: Request) -> Response:
    """Return all teams. Users and templates are told of one's own; viewers and operators read all."""
    reader = reader_of(request)
    board = await ask(request, "team_board", reader)
    return answer(await ask(request, "teams", reader) | {"now": board["teams"]})


@router.put("/teams", responses={200: {"model": TeamsChange}})
async def apply_teams(request: Request) -> Response:
    """Let a file of teams count from the next round on, or say what it would change."""
    body = await bodies.read(request, NewTeams)
    if body.dry_run:
        nothing_changes(request)
        return answer(await ask(request, "would_apply", body.file))
    found = await change(request, "apply_teams", body.file, body.version, who(request).user)
    context(request).forget_tokens()
    return answer(found)
