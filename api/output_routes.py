"""What jobs wrote to their output folders."""

from __future__ import annotations

import base64
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from ..core.output_tree import Output
from . import bodies
from .context import answer, ask
from .cursors import cursor_of, name_of_place

router = APIRouter(prefix="/v1/jobs/{job_id}/outputs")
Name = Annotated[list[str], Field(min_length=1, max_length=100)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Names(_Body):
    """Names of outputs, each part by part."""

    names: Annotated[list[Name], Field(max_length=10_000)]


class Part(_Body):
    """A place in one output."""

    name: Name
    offset: Annotated[int, Field(ge=0, le=2**53)] = 0


@router.get("")
async def page(
    request: Request, job_id: str, cursor: Annotated[str | None, Query(max_length=20_000)] = None
) -> Response:
    """Return outputs in their order."""
    after = name_of_place(cursor, job_id)
    found: list[Output] = await ask(request, "output_page", job_id, after)
    following = cursor_of(list(found[-1].name), job_id) if found else None
    return answer({"items": [_row(one) for one in found], "next": following})


def _row(output: Output) -> dict[str, Any]:
    return {"name": list(output.name), **vars(output.entry)}


@router.post("/contents")
async def contents(request: Request, job_id: str) -> Response:
    """Return the first few of some contents, in base64; null for one that is gone."""
    body = await bodies.read(request, Names)
    found = await ask(request, "output_contents", job_id, [tuple(name) for name in body.names])
    coded = [None if one is None else base64.b64encode(one).decode() for one in found]
    return answer({"contents": coded})


@router.post("/part")
async def part(request: Request, job_id: str) -> Response:
    """Return a part of one output from an offset on."""
    body = await bodies.read(request, Part)
    found = await ask(request, "output_part", job_id, tuple(body.name), body.offset)
    if found is None:
        raise KeyError(f"{job_id} has no output {'/'.join(body.name)}")
    return Response(found, media_type="application/octet-stream")
