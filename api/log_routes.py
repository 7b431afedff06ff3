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


@router.get("/log-sources")
async def log_sources(request: Request, job_id: str) -> Response:
    """Return the names of what has written output."""
    return answer(await ask(request, "log_sources", job_id))
