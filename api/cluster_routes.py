"""Nodes, machines and settings."""

from __future__ import annotations

from enum import StrEnum

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..core.schemas import ClusterView, MachineRow
from .context import answer, ask

router = APIRouter(prefix="/v1")


class Verb(StrEnum):
    """What may be done to a machine."""

    SLEEP = "sleep"
    WAKE = "wake"
    KEEP = "keep"
    UNKEEP = "unkeep"
    FORGET = "forget"


@router.get("/cluster", responses={200: {"model": ClusterView}})
async def cluster(request: Request) -> Response:
    """Return every usable node with what runs on it."""
    return answer(await ask(request, "cluster"))


@router.get("/machines", responses={200: {"model": list[MachineRow]}})
async def machines(request: Request) -> Response:
    """Return every machine, also those whose nodes sleep."""
    return answer(await ask(request, "machines"))


@router.post("/machines/{machine}/{verb}")
async def power(request: Request, machine: str, verb: Verb) -> Response:
    """Power a machine off or on, or keep it from being powered off."""
    return answer({"changed": await ask(request, "power", verb.value, machine)})


@router.get("/settings")
async def settings(request: Request) -> Response:
    """Return the settings of the service."""
    return answer(await ask(request, "settings"))
