"""Working directories of jobs."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from . import bodies
from .context import answer, ask
from .problems import Problem

router = APIRouter(prefix="/v1/packages")
Name = Annotated[str, Path(pattern=r"^[0-9a-f]{32,64}$")]
MIB = 1 << 20


@router.get("/{name}")
async def has(request: Request, name: Name) -> Response:
    """Return whether a package is there."""
    return answer({"there": await ask(request, "has_package", name)})


@router.put("/{name}", status_code=201)
async def put(request: Request, name: Name) -> Response:
    """Keep a package, whose name is the digest of its content."""
    most_mib = (await ask(request, "settings"))["max_package_mib"]
    data = await bodies.whole(request, most_mib * MIB + MIB)
    if not hashlib.sha256(data).hexdigest().startswith(name):
        accepted = "the SHA-256 of its content"
        raise Problem(422, f"package: {name} is not {accepted}", field="name", value=name, accepted=accepted)
    await ask(request, "put_package", name, data)
    return answer({"there": True}, 201)
