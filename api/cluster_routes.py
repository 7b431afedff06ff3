"""Nodes, machines and settings."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ..core.identity import Role
from ..core.schemas import ClusterView, MachineRow, PricesView, RoundsPage
from .context import answer, ask, ask_shared, change, may_read, reader_of, team_if_others, who
from .cursors import cursor_of, number_of_place

router = APIRouter(prefix="/v1")
OTHERS = "others"  # instead of the names of their jobs


class Verb(StrEnum):
    """What may be done to a machine."""

    SLEEP = "sleep"
    WAKE = "wake"
    KEEP = "keep"
    UNKEEP = "unkeep"
    FORGET = "forget"


@router.get("/cluster", responses={200: {"model": ClusterView}})
async def cluster(request: Request) -> Response:
    """Return every usable node with what runs on it. Others' jobs have no names for a user, and no notes."""
    return answer(await view_for(request))


async def view_for(request: Request, teams: Collection[str] = ()) -> Any:
    """Return `core.schemas.ClusterView` as who asks may see it.

    Args:
        teams: those by which others' jobs are told apart, as others@TEAM; all others are one sum.
    """
    view = await ask_shared(request, "cluster", reader_of(request))
    if who(request).role is not Role.USER:
        return view
    return {**view, "nodes": [await _without_others(request, node, teams) for node in view["nodes"]]}


async def _without_others(request: Request, node: dict[str, Any], teams: Collection[str]) -> dict[str, Any]:
    devices = [
        {**device, "tenants": await _own(request, device["tenants"], teams) if device["tenants"] else {}}
        for device in node["devices"]
    ]
    return {**node, "jobs": await _own(request, node["jobs"], teams), "devices": devices}


async def _own(request: Request, by_job: dict[str, float], teams: Collection[str]) -> dict[str, float]:
    """Return amounts by job, with those of others' jobs as one sum, or one for each team."""
    found: dict[str, float] = {}
    for job_id, amount in by_job.items():
        team = await team_if_others(request, job_id)
        name = job_id if team is None else f"{OTHERS}@{team}" if team in teams else OTHERS
        found[name] = found.get(name, 0) + amount
    return found


@router.get("/rounds", responses={200: {"model": RoundsPage}})
async def rounds(
    request: Request,
    since_s: Annotated[float | None, Query(ge=0, le=1e12, allow_inf_nan=False)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> Response:
    """Return what the last rounds decided, newest first. Others' jobs have no names for a user, and no notes.

    Args:
        since_s: seconds since 1970.
    """
    found = await rounds_for(request, number_of_place(cursor, since_s), limit, since_s)
    return answer(
        {"items": found["rows"], "next": None if found["next"] is None else cursor_of(found["next"], since_s)}
    )


async def rounds_for(request: Request, before: int | None, limit: int, since_s: float | None) -> Any:
    """Return the `rows` of rounds and the `next` place, as who asks may see them."""
    found = await ask_shared(request, "rounds", before, limit, since_s, reader_of(request))
    if who(request).role is not Role.USER:
        return found
    return {**found, "rows": [await _without_others_changes(request, row) for row in found["rows"]]}


async def _without_others_changes(request: Request, row: dict[str, Any]) -> dict[str, Any]:
    kinds = ("placed", "moved", "stopped", "measured")
    return {**row} | {kind: [one for one in row[kind] if await may_read(request, one["job"])] for kind in kinds}


@router.get("/prices", responses={200: {"model": PricesView}})
async def prices(
    request: Request, since_s: Annotated[float | None, Query(ge=0, le=1e12, allow_inf_nan=False)] = None
) -> Response:
    """Return the price of each GPU type in the rounds of the last day.

    Args:
        since_s: seconds since 1970, instead of a day ago.
    """
    return answer(await ask(request, "prices", since_s))


@router.get("/machines", responses={200: {"model": list[MachineRow]}})
async def machines(request: Request) -> Response:
    """Return every machine, also those whose nodes sleep."""
    return answer(await ask(request, "machines", reader_of(request)))


@router.post("/machines/{machine}/{verb}")
async def power(request: Request, machine: str, verb: Verb) -> Response:
    """Power a machine off or on, or keep it from being powered off."""
    return answer({"changed": await change(request, "power", verb.value, machine)})


@router.get("/settings")
async def settings(request: Request) -> Response:
    """Return the settings of the service."""
    return answer(await ask(request, "settings"))
