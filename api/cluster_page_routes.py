"""The pages of rounds and nodes, of the audit log, and of tokens."""

from __future__ import annotations

import time
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ..core.identity import Role
from ..dashboard.rounds_page import answer as rounds_answer
from ..dashboard.rounds_page import round_lines
from ..dashboard.words import count
from .cluster_routes import rounds_for, view_for
from .context import ask, ask_shared, who
from .cursors import cursor_of, number_of_place
from .pages import colours, shown

router = APIRouter(include_in_schema=False)
ROWS = 50
Cursor = Annotated[str | None, Query(max_length=500)]
Text = Annotated[str, Query(max_length=200)]


@router.get("/rounds")
async def rounds(request: Request, cursor: Cursor = None) -> Response:
    """Show what the last rounds decided."""
    found = await rounds_for(request, number_of_place(cursor, None), ROWS, None)
    older = None if found["next"] is None else f"/rounds?{urlencode({'cursor': cursor_of(found['next'], None)})}"
    rows = found["rows"]
    return await shown(
        request, "rounds", rows=round_lines(rows), next=older, answer=rounds_answer(rows, time.time())
    )


@router.get("/nodes")
async def nodes(request: Request) -> Response:
    """Show nodes, and to operators what may be done with them."""
    found = sorted((await view_for(request))["nodes"], key=lambda node: (node["gpu_type"], node["machine"]))
    closed = sum(bool(node["closed"]) for node in found)
    gpus = sum(node["gpus"] for node in found)
    answer = f"{count(len(found), 'node')} with {count(gpus, 'GPU')}" + (f"; {closed} closed." if closed else ".")
    return await shown(
        request,
        "nodes",
        nodes=found,
        answer=answer if found else "No node is here yet.",
        operator=who(request).role is Role.OPERATOR,
        colours=await colours(request),
    )


@router.get("/audit")
async def audit(
    request: Request, user: Text = "", job: Text = "", verb: Text = "", cursor: Cursor = None
) -> Response:
    """Show who changed what, newest first. Filters are part of the address."""
    filters = {"user": user, "job": job, "verb": verb}
    chosen: dict[str, Any] = {name: value or None for name, value in filters.items()} | {"since_s": None}
    chosen["oldest_first"] = False
    found = await ask_shared(request, "audit", number_of_place(cursor, chosen), ROWS, chosen)
    older = None
    if found["next"] is not None:
        older = f"/audit?{urlencode({**filters, 'cursor': cursor_of(found['next'], chosen)})}"
    filtered = any(filters.values())
    rows = found["rows"]
    refused = sum(row["outcome"] != "done" for row in rows)
    answer = f"{count(len(rows), 'change')}{' that fit' if filtered else ''}, {refused or 'none'} of them refused."
    return await shown(
        request,
        "audit",
        rows=rows,
        next=older,
        filters=filters,
        filtered=filtered,
        answer=answer if rows else "Nothing was changed yet." if not filtered else "No change fits.",
    )


@router.get("/tokens")
async def tokens(request: Request) -> Response:
    """Show tokens, never what they are; make one, and revoke one."""
    asker = who(request)
    everybody = asker.role is Role.OPERATOR
    found = await ask(request, "tokens", None if everybody else asker.user)
    rows = sorted(found, key=lambda row: (row["revoked_s"] is not None, -row["created_s"]))
    now = time.time()
    good = sum(row["revoked_s"] is None and (row["expires_s"] or now) >= now for row in rows)
    return await shown(
        request,
        "tokens",
        rows=rows,
        everybody=everybody,
        own=asker.token_id,
        answer=f"{count(good, 'token is', 'tokens are')} good{'' if everybody else ', all of them yours'}.",
    )
