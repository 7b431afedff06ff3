"""Answers that go on: server-sent events, which a client takes up again where it has lost them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from fastapi import Request
from fastapi.responses import StreamingResponse

from ..core.errors import StateError
from .context import context
from .problems import Problem

MOST = 2**53  # of a number; more than any event or byte has
CHECK_S = 30.0  # how often it is looked whether who reads still may


def streamed(parts: AsyncIterator[str]) -> StreamingResponse:
    """Return an answer of server-sent events. The next part is made when the last one was taken."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(parts, media_type="text/event-stream", headers=headers)


def number_of(last_event_id: str | None, accepted: str) -> int | None:
    """Return the number from which a client goes on; None: from the beginning. Raises: Problem."""
    if last_event_id is None:
        return None
    if not (last_event_id.isascii() and last_event_id.isdecimal() and int(last_event_id) <= MOST):
        detail = f"Last-Event-ID: {last_event_id} is not {accepted}"
        raise Problem(400, detail, field="Last-Event-ID", value=last_event_id, accepted=accepted)
    return int(last_event_id)


class Watched:
    """Looks now and then whether who reads an answer still may: tokens are revoked, and users disabled."""

    def __init__(self, request: Request) -> None:
        self._request, self._looked_s = request, time.monotonic()

    async def may_go_on(self) -> bool:
        """Return whether the answer goes on."""
        if time.monotonic() - self._looked_s < CHECK_S:
            return True
        self._looked_s = time.monotonic()
        try:
            await context(self._request).allow(self._request)
        except StateError:  # the scheduler is away, and nothing is told meanwhile
            return True
        except (Problem, KeyError):
            return False
        return True
