"""What jobs have printed: in parts, or as it comes until the job ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response

from ..core.errors import StateError
from ..core.schemas import ALL
from .context import answer, ask
from .problems import Problem
from .server_sent import QUIET, sent
from .streams import Watched, number_of, streamed

router = APIRouter(prefix="/v1/jobs/{job_id}")
FIRST_LOOK_S, LONGEST_LOOK_S = 0.2, 1.0  # between looks for more output
QUIET_LOOKS = 15  # without output, after which a client hears that the connection is alive
Tail = Annotated[int | None, Query(ge=0, le=10_000_000)]
Last = Annotated[float | None, Query(ge=0, le=1e9, allow_inf_nan=False)]


@router.get("/logs")
async def logs(
    request: Request,
    job_id: str,
    offset: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    source: Annotated[str, Query(max_length=100)] = "rank-0",
    rank: Annotated[str | None, Query(max_length=10)] = None,
    tail: Tail = None,
    last_s: Last = None,
    follow: bool = False,
    last_event_id: Annotated[str | None, Header(max_length=30)] = None,
) -> Response:
    """Return a part of a job's output, the offset after it, and whether the job has ended and that is all.

    Args:
        source: what has written it; or `rank`: that worker's number, or `all`.
        tail: begin with so many of the newest lines. last_s: with what was written in the last seconds.
        follow: send output as it comes (server-sent events), until the job ends. `end` says how it did.
    """
    source = source if rank is None else await _source_of(request, job_id, rank, follow=follow)
    resumed = number_of(last_event_id, "the offset of an earlier part")
    begin, left_out = offset or 0, 0
    if resumed is not None:
        begin = resumed
    elif offset is None and (tail is not None or last_s is not None):
        begin, left_out = await ask(request, "log_place", job_id, source, tail, last_s)
    if follow:
        return streamed(_followed(request, job_id, source, begin, left_out))
    text, following, done = await ask(request, "logs", job_id, begin, source)
    return answer({"text": _without(text, left_out)[0], "next": following, "done": done})


async def _source_of(request: Request, job_id: str, rank: str, *, follow: bool) -> str:
    """Return the source of a rank. Raises: Problem for a rank that the job has not, or cannot have."""
    if rank == ALL:
        return ALL
    if not (rank.isascii() and rank.isdecimal()):
        accepted = "a rank, 0 or more, or all"
        raise Problem(422, f"rank: {rank} is not {accepted}", field="rank", value=rank, accepted=accepted)
    most = await ask(request, "most_ranks", job_id)
    if int(rank) >= most:
        accepted = f"0 to {most - 1}" if most > 1 else "0"
        detail = f"rank: {rank} is more than {job_id} can have; its ranks are {accepted}"
        raise Problem(422, detail, field="rank", value=rank, accepted=accepted)
    source, there = f"rank-{int(rank)}", await ask(request, "log_sources", job_id)
    if there and source not in there and not follow:
        detail = f"rank: {job_id} has no output of rank {rank}; there is output of {', '.join(there)}"
        raise Problem(404, detail, field="rank", value=rank, accepted=", ".join(there))
    return source


async def _followed(request: Request, job_id: str, source: str, begin: int, left_out: int) -> AsyncIterator[str]:
    """Yield output as it comes, then how the job has ended."""
    watched, wait_s, looks = Watched(request), FIRST_LOOK_S, 0
    yield ": connected\n\n"
    while await watched.may_go_on():
        try:
            text, following, done = await ask(request, "logs", job_id, begin, source)
            if done:
                yield sent("end", await ask(request, "how_it_ended", job_id))
                return
        except StateError:  # the scheduler starts again
            text, following = "", begin
        except KeyError:
            yield sent("end", {"phase": None, "reason": f"{job_id} was removed"})
            return
        if following == begin:
            looks += 1
            if looks % QUIET_LOOKS == 0:
                yield QUIET
            await asyncio.sleep(wait_s)  # nobody tells when a job writes
            wait_s = min(1.5 * wait_s, LONGEST_LOOK_S)
            continue
        text, left_out = _without(text, left_out)
        begin, wait_s, looks = following, FIRST_LOOK_S, 0
        yield sent("text", {"text": text, "next": following}, following)


def _without(text: str, lines: int) -> tuple[str, int]:
    """Return a text without its first lines, and how many more are to be left out."""
    while lines and text:
        lines, text = lines - 1, text.partition("\n")[2]
    return text, lines


@router.get("/log-place")
async def log_place(
    request: Request,
    job_id: str,
    source: Annotated[str, Query(max_length=100)] = "rank-0",
    tail: Tail = None,
    last_s: Last = None,
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
