"""The audit log: who changed what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ..core.schemas import AuditPage
from .context import answer, ask
from .cursors import cursor_of, number_of_place

router = APIRouter(prefix="/v1")
Text = Annotated[str | None, Query(max_length=200)]


@router.get("/audit", responses={200: {"model": AuditPage}})
async def audit(
    request: Request,
    user: Text = None,
    job: Text = None,
    verb: Text = None,
    since_s: Annotated[float | None, Query(ge=0, le=1e12, allow_inf_nan=False)] = None,
    oldest_first: bool = False,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> Response:
    """Return who changed what, newest first. A refused try is told by its outcome.

    Args:
        verb: such as `job.cancel`, or `job` for all that begin so.
        since_s: seconds since 1970.
    """
    chosen = {"user": user, "job": job, "verb": verb, "since_s": since_s, "oldest_first": oldest_first}
    found = await ask(request, "audit", number_of_place(cursor, chosen), limit, chosen)
    following = None if found["next"] is None else cursor_of(found["next"], chosen)
    return answer({"items": found["rows"], "next": following, "head": found["head"]})
