"""The page of teams: what each was promised, has, and has used this month."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..core.identity import Role
from ..core.spans import month_begins_s
from ..dashboard.teams_page import teams_page
from .context import ask_shared, reader_of, who
from .pages import colours, shown

router = APIRouter(include_in_schema=False)
USED_S = 20.0  # so old what was used this month may be


@router.get("/teams")
async def teams(request: Request) -> Response:
    """Show teams. Users see what others' teams have, and of their own also who and how much of the month."""
    reader = reader_of(request)
    view = await ask_shared(request, "teams", reader)
    board = await ask_shared(request, "team_board", reader)
    used = await ask_shared(request, "usage", ["team", "user"], month_begins_s(time.time()), reader, keep_s=USED_S)
    told = None if reader is None else reader.teams
    return await shown(
        request,
        "teams",
        page=teams_page(view, board, used, told),
        operator=who(request).role is Role.OPERATOR,
        colours=await colours(request),
    )
