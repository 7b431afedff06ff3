"""The metrics of scheduler and API, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from .context import context
from .metrics import MEDIA_TYPE

router = APIRouter()


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return all metrics in the text format of Prometheus."""
    return Response(await context(request).metrics.text(), media_type=MEDIA_TYPE)
