"""Secrets of users. What they hold goes in, and never comes out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from ..core.schemas import SecretRow
from . import bodies
from .context import answer, ask, change, who
from .problems import Problem

router = APIRouter(prefix="/v1/secrets")
Name = Annotated[str, Path(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
MOST_BYTES = 64 * 1024


@router.get("", responses={200: {"model": list[SecretRow]}})
async def secrets(request: Request) -> Response:
    """Return names and dates of one's own secrets."""
    return answer(await ask(request, "secrets", who(request).user))


@router.put("/{secret}")
async def put(request: Request, secret: Name) -> Response:
    """Keep a secret of one's own. The body is its value: text, which no answer ever holds."""
    body = await bodies.whole(request, MOST_BYTES)
    try:
        value = body.decode()
    except UnicodeDecodeError:
        raise Problem(422, f"{secret}: the value is not text in UTF-8") from None
    return answer(await change(request, "put_secret", who(request).user, secret, value))


@router.delete("/{secret}")
async def remove(request: Request, secret: Name) -> Response:
    """Remove a secret of one's own."""
    return answer(await change(request, "remove_secret", who(request).user, secret))


@router.post("/rekey")
async def rekey(request: Request) -> Response:
    """Seal all secrets with a new key."""
    return answer(await change(request, "rekey_secrets"))
