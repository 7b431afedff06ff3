"""What users and teams have used."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ..core.schemas import UsageSum
from .context import answer, ask, reader_of

router = APIRouter(prefix="/v1")
SINCE_S = 30 * 86_400.0


class By(StrEnum):
    """What sums are told apart by."""

    TEAM = "team"
    USER = "user"
    TYPE = "type"


@router.get("/usage", responses={200: {"model": list[UsageSum]}})
async def usage(
    request: Request,
    by: Annotated[list[By] | None, Query(max_length=3)] = None,
    since_s: Annotated[float | None, Query(ge=0, le=1e11, allow_inf_nan=False)] = None,
) -> Response:
    """Return value units and GPU-hours, the most first. Users read of their own and of their teams.

    Args:
        by: by default team and user.
        since_s: seconds since 1970; by default 30 days ago.
    """
    words = [one.value for one in dict.fromkeys(by or (By.TEAM, By.USER))]
    begin_s = time.time() - SINCE_S if since_s is None else since_s
    return answer(await ask(request, "usage", words, begin_s, reader_of(request)))
