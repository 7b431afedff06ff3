"""Reads bodies of requests in bounded memory, and refuses what no client of ours sends."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any, NoReturn, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from .problems import Problem, of_validation

MOST_BYTES = 1 << 20  # of a JSON body
MOST_LEVELS = 64
QUIET_S = 60.0  # after so long without a part of a body nobody waits for the rest
WITHOUT_NUL = r"^[^\x00]*$"  # what a text is that a store keeps
Body = TypeVar("Body", bound=BaseModel)


async def read(request: Request, kind: type[Body]) -> Body:
    """Return the JSON body of a request as a model. Raises: Problem."""
    document = parsed(await whole(request, MOST_BYTES))
    if not isinstance(document, dict):
        raise Problem(422, "the body is not a JSON object", field="body", value=document, accepted="an object")
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        raise of_validation(error) from None


async def whole(request: Request, most: int) -> bytes:
    """Return the body of a request. Raises: Problem for one that is too large."""
    return b"".join([part async for part in pieces(request, most)])


async def pieces(request: Request, most: int) -> AsyncIterator[bytes]:
    """Yield the body of a request as it comes. Raises: Problem for one that is too large, or stops coming."""
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > most:
        raise _too_large(most)
    size, stream = 0, request.stream()
    while True:
        try:
            part = await asyncio.wait_for(anext(stream), QUIET_S)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Problem(408, f"nothing more of the body came for {QUIET_S:.0f} s") from None
        except ClientDisconnect:
            raise Problem(400, "the connection ended within the body") from None
        size += len(part)
        if size > most:
            raise _too_large(most)
        yield part


def _too_large(most: int) -> Problem:
    return Problem(413, f"the body is larger than {most} bytes")


def parsed(body: bytes) -> Any:
    """Return what a JSON text says. Raises: Problem for a text that is none, is too deep, or has NaN in it."""
    if _levels(body) > MOST_LEVELS:
        raise Problem(400, f"the body has more than {MOST_LEVELS} levels of lists and objects")
    try:
        return json.loads(body.decode(), parse_constant=_refuse)
    except UnicodeDecodeError:
        raise Problem(400, "the body is not text in UTF-8") from None
    except ValueError as error:
        raise Problem(400, f"the body is not JSON: {error}") from None


def _refuse(name: str) -> NoReturn:
    raise Problem(400, f"the body has {name} in it, which is no JSON number")


_STRING, _BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL), re.compile(rb"[\[\]{}]")


def _levels(body: bytes) -> int:
    """Return how deep lists and objects are nested, without reading them."""
    depth = most = 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        most = max(most, depth)
    return most
