"""The log: of one job a page, of all of them as they happen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response, StreamingResponse

from ..core.json_numbers import dumps
from .access import sees
from .context import answer, ask, context, who
from .problems import Problem

router = APIRouter(prefix="/v1")


@router.get("/jobs/{job_id}/events")
async def job_events(request: Request, job_id: str, last: Annotated[int, Query(ge=1, le=1000)] = 200) -> Response:
    """Return the newest events of a job, oldest first."""
    return answer(await ask(request, "job_events", job_id, last))


@router.get("/events")
async def events(
    request: Request,
    after: Annotated[int | None, Query(ge=0)] = None,
    last_event_id: Annotated[str | None, Header(max_length=30)] = None,
) -> Response:
    """Send events as they happen (server-sent events), from the one after `Last-Event-ID` or `after` on."""
    begin = await _begin(request, after, last_event_id)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_lines(request, begin), media_type="text/event-stream", headers=headers)


async def _begin(request: Request, after: int | None, last_event_id: str | None) -> int:
    newest: int = await ask(request, "last_event")
    if last_event_id is not None:
        if not last_event_id.isdecimal():
            accepted = "the number of an event"
            detail = f"Last-Event-ID: {last_event_id} is not {accepted}"
            raise Problem(400, detail, field="Last-Event-ID", value=last_event_id, accepted=accepted)
        return min(int(last_event_id), newest)
    return newest if after is None else min(after, newest)


async def _lines(request: Request, after: int) -> AsyncIterator[str]:
    asker, shared = who(request), context(request)
    yield ": connected\n\n"
    async for event in shared.feed.follow(after):
        if event is None:
            yield ": quiet\n\n"
        elif event["job_id"] is None or sees(asker, await shared.owner(event["job_id"])):
            yield f"id: {event['number']}\nevent: {event['kind']}\ndata: {dumps(event)}\n\n"
