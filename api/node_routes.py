"""Nodes that take no new work: orders of operators, and maintenance windows."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from ..core.schemas import OrderView, WindowRow
from . import bodies
from .bodies import WITHOUT_NUL
from .context import answer, ask, change, who

router = APIRouter(prefix="/v1")
MOST_TEXT = 200  # characters of a reason
LAST_S = 253_402_300_000.0  # the year 9999
Why = Annotated[str, Field(max_length=MOST_TEXT, pattern=WITHOUT_NUL)]
Moment = Annotated[float, Field(ge=0, le=LAST_S, allow_inf_nan=False)]


class Cordon(BaseModel):
    """What `POST /v1/nodes/{node}/cordon` takes."""

    model_config = ConfigDict(extra="forbid")

    why: Why = ""


class Drain(Cordon):
    """What `POST /v1/nodes/{node}/drain` takes. `deadline_s`: by when the node is left, from now."""

    deadline_s: float | None = Field(default=None, le=LAST_S, allow_inf_nan=False)

    @field_validator("deadline_s")
    @classmethod
    def _to_come(cls, seconds: float | None) -> float | None:
        if seconds is not None and seconds <= 0:
            raise ValueError(f"{seconds:g} s from now is in the past; it is accepted above 0")
        return seconds


class NewWindow(Cordon):
    """What `POST /v1/windows` takes: moments in seconds since 1970, and machines or a GPU type."""

    begins_s: Moment
    ends_s: Moment
    nodes: Annotated[list[str], Field(max_length=10_000)] = []
    gpu_type: Why = ""
    lead_s: float | None = Field(default=None, ge=0, le=30 * 86400, allow_inf_nan=False)


@router.post("/nodes/{node}/cordon", responses={200: {"model": OrderView}})
async def cordon(request: Request, node: str) -> Response:
    """Give a node no new work; what runs there stays."""
    body = await bodies.read(request, Cordon)
    return answer(await change(request, "cordon", node, who(request).user, body.why))


@router.post("/nodes/{node}/drain", responses={200: {"model": OrderView}})
async def drain(request: Request, node: str) -> Response:
    """Give a node no new work, and have what runs there leave."""
    body = await bodies.read(request, Drain)
    return answer(await change(request, "drain", node, body.deadline_s, who(request).user, body.why))


@router.post("/nodes/{node}/uncordon", responses={200: {"model": OrderView}})
async def uncordon(request: Request, node: str) -> Response:
    """Let a node take work again."""
    return answer(await change(request, "uncordon", node, who(request).user))


@router.get("/windows", responses={200: {"model": list[WindowRow]}})
async def windows(request: Request) -> Response:
    """Return all maintenance windows, the next one first."""
    return answer(await ask(request, "windows"))


@router.post("/windows", responses={200: {"model": WindowRow}})
async def add_window(request: Request) -> Response:
    """Keep nodes free from one moment to another."""
    body = await bodies.read(request, NewWindow)
    where = body.nodes, body.gpu_type
    told = body.begins_s, body.ends_s, *where, body.lead_s, who(request).user, body.why
    return answer(await change(request, "add_window", *told))


@router.delete("/windows/{window}", responses={200: {"model": WindowRow}})
async def remove_window(request: Request, window: str) -> Response:
    """Forget a maintenance window; its nodes take work again."""
    return answer(await change(request, "remove_window", window, who(request).user))
