"""Working directories of jobs."""

from __future__ import annotations

import asyncio
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from ..core.package_form import MIB
from . import bodies
from .arriving_package import ArrivingPackage
from .context import answer, ask, context, who
from .problems import Problem

router = APIRouter(prefix="/v1/packages")
KnownName = Annotated[str, Path(pattern=r"^[0-9a-f]{32,64}$")]  # earlier versions gave shorter ones
Name = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]


@router.get("/{name}")
async def has(request: Request, name: KnownName) -> Response:
    """Return whether a package is there."""
    return answer({"there": await ask(request, "has_package", name)})


@router.put("/{name}", status_code=201)
async def put(request: Request, name: Name) -> Response:
    """Keep a package, whose name is the SHA-256 of its content.

    It is written as it comes, so that memory does not grow with it, and looked through before it is kept.
    """
    folder, most_mib = await ask(request, "package_place")
    with context(request).arrivals.one_of(who(request).user):
        try:
            with ArrivingPackage(FilePath(folder), name, most_mib) as package:
                await _fill(request, package, most_mib * MIB)
                await asyncio.to_thread(package.keep)
        except OSError as error:
            raise Problem(503, f"the package cannot be written: {error.strerror or error}") from None
    return answer({"there": True}, 201)


async def _fill(request: Request, package: ArrivingPackage, most: int) -> None:
    gathered = bytearray()
    async for piece in bodies.pieces(request, most):
        gathered += piece
        if len(gathered) >= MIB:
            await asyncio.to_thread(package.add, bytes(gathered))
            gathered.clear()
    await asyncio.to_thread(package.add, bytes(gathered))
