"""The log: of one job a page, of all of them as they happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response

from ..core.errors import StateError
from ..core.events import EventKind, shown_kind
from .access import sees
from .context import answer, ask, context, may_read, reader_of, who
from .feed import POLL_S
from .problems import Problem
from .server_sent import QUIET
from .streams import Watched, number_of, streamed

router = APIRouter(prefix="/v1")
KINDS = {shown_kind(kind): kind for kind in EventKind}
Kinds = Annotated[list[str] | None, Query(alias="kind", max_length=len(KINDS))]


@router.get("/jobs/{job_id}/events")
async def job_events(request: Request, job_id: str, last: Annotated[int, Query(ge=1, le=1000)] = 200) -> Response:
    """Return the newest events of a job, oldest first."""
    return answer(await ask(request, "job_events", job_id, last))


@router.get("/events")
async def events(
    request: Request,
    after: Annotated[int | None, Query(ge=0)] = None,
    follow: bool = True,
    last: Annotated[int, Query(ge=1, le=1000)] = 200,
    job: Annotated[str | None, Query(max_length=200)] = None,
    kind: Kinds = None,
    since_s: Annotated[float | None, Query(ge=0, le=1e12, allow_inf_nan=False)] = None,
    last_event_id: Annotated[str | None, Header(max_length=30)] = None,
) -> Response:
    """Send events as they happen (server-sent events), from the one after `Last-Event-ID` or `after` on.

    Args:
        follow: false: return the newest ones instead, oldest first.
        last: how many of those. since_s: only of that time on, in seconds since 1970.
        job, kind: only of this job, of these kinds.
    """
    kinds = _known(kind or ())
    if job is not None:
        await _check_seen(request, job)
    if not follow:
        reader = reader_of(request)
        return answer(await ask(request, "newest_events", last, job, sorted(kinds), since_s, reader))
    newest: int = await ask(request, "last_event")
    told = number_of(last_event_id, "the number of an event")
    begin = min(next((one for one in (told, after) if one is not None), newest), newest)
    return streamed(_lines(request, begin, job, {shown_kind(one) for one in kinds}))


def _known(words: Collection[str]) -> set[EventKind]:
    for word in words:
        if word not in KINDS:
            accepted = f"one of {', '.join(KINDS)}"
            raise Problem(422, f"kind: {word} is not {accepted}", field="kind", value=word, accepted=accepted)
    return {KINDS[word] for word in words}


async def _check_seen(request: Request, job_id: str) -> None:
    if not sees(who(request), *await context(request).whose(job_id)):
        raise Problem(404, f"no job {job_id}")


async def _lines(request: Request, after: int, job: str | None, kinds: Collection[str]) -> AsyncIterator[str]:
    shared, watched, of_user = context(request), Watched(request), reader_of(request) is not None
    yield ": connected\n\n"
    async for events in shared.feed.follow(after):
        if not await watched.may_go_on():
            return
        lines = [
            shared.feed.line(event, shared=of_user)
            for event in events
            if (job is None or event["job_id"] == job) and (not kinds or event["kind"] in kinds)
            if event["job_id"] is None or await _may_see(request, event["job_id"])
        ]
        if lines or not events:
            yield "".join(lines) or QUIET


async def _may_see(request: Request, job_id: str) -> bool:
    while True:
        try:
            return await may_read(request, job_id)
        except StateError:  # the scheduler is away, and nothing is told meanwhile
            await asyncio.sleep(POLL_S)
