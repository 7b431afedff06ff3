"""What jobs have printed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from .context import answer, ask

router = APIRouter(prefix="/v1/jobs/{job_id}")


@router.get("/logs")
async def logs(
    request: Request,
    job_id: str,
    offset: Annotated[int, Query(ge=0)] = 0,
    source: Annotated[str, Query(max_length=100)] = "rank-0",
) -> Response:
    """Return a part of a job's output, the offset after it, and whether the job has ended and that is all."""
    text, following, done = await ask(request, "logs", job_id, offset, source)
    return answer({"text": text, "next": following, "done": done})


@router.get("/log-place")
async def log_place(
    request: Request,
    job_id: str,
    source: Annotated[str, Query(max_length=100)] = "rank-0",
    tail: Annotated[int | None, Query(ge=0)] = None,
    last_s: Annotated[float | None, Query(ge=0)] = None,
) -> Response:
    """Return the offset at which the newest lines begin, and how many lines from there on are not asked for.

    Args:
        tail: lines at most; None: all.
        last_s: only what was written in the last seconds.
    """
    offset, left_out = await ask(request, "log_place", job_id, source, tail, last_s)
    return answer({"offset": offset, "left_out": left_out})


@router.get("/log-sources")
async def log_sources(request: Request, job_id: str) -> Response:
    """Return the names of what has written output."""
    return answer(await ask(request, "log_sources", job_id))
