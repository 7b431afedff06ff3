"""How the service is, for people and for what watches it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..core.schemas import HealthView
from .context import answer, ask, reader_of, who

router = APIRouter()
OLDEST_TICK_S = 60.0


@router.get("/healthz")
async def healthz(request: Request) -> Response:
    """Return 200 while the loop of the scheduler goes on."""
    found = await ask(request, "health")
    well = found["tick_age_s"] < OLDEST_TICK_S
    return answer({"ok": well, "tick_age_s": found["tick_age_s"]}, 200 if well else 503)


@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """Return 200 while jobs can be submitted and rounds run."""
    found = await ask(request, "health")
    ready = found["degraded"] is None and bool(await ask(request, "ping"))
    return answer({"ok": ready, "degraded": found["degraded"]}, 200 if ready else 503)


@router.get("/v1/health", responses={200: {"model": HealthView}})
async def health(request: Request) -> Response:
    """Return how the service is."""
    return answer(await ask(request, "health", reader_of(request) is not None))


@router.get("/v1/me")
async def me(request: Request) -> Response:
    """Return who asks."""
    asker = who(request)
    return answer(
        {"user": asker.user, "role": asker.role.value, "token_id": asker.token_id, "teams": [*asker.teams]}
    )
