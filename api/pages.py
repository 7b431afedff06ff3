"""What all pages have in common: their form, their headers, and who looks at them."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import Response

from ..core.identity import Reader, Role
from ..dashboard.colours import colours_of
from ..dashboard.rendering import page
from .context import ask_shared, who
from .sessions import page_word, session_token

TYPES_S = 10.0  # so long the cluster's GPU types are taken to stay the same
NOBODY = Reader("")  # who may read no job; what is asked for nobody is shared by all
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def html(text: str, status: int = 200) -> Response:
    """Return a page."""
    return Response(text, status, media_type="text/html", headers=HEADERS)


async def shown(request: Request, template: str, **more: Any) -> Response:
    """Return a page for who asks, which changes by itself. `more`: what its template shows."""
    token, asker = session_token(request), who(request)
    shared = bool(await ask_shared(request, "team_names"))
    more = {"pages": pages_for(asker.role, shared=shared), "has_teams": shared, **more}
    query = f"?{request.url.query}" if request.url.query else ""
    return html(
        page(
            template,
            me=asker,
            signed_in=bool(token),
            csrf=page_word(token) if token else "",
            here=request.url.path,
            live=True,
            url=f"{request.url.path}{query}",
            **more,
        )
    )


def problem_page(status: int, title: str, detail: str) -> Response:
    """Return a page that says what is wrong."""
    return html(page("problem", title=title, detail=f"{detail}.", back="/"), status)


def pages_for(role: Role, *, shared: bool) -> list[tuple[str, str]]:
    """Return the pages that somebody may open, with their names. `shared`: whether teams share the cluster."""
    found = [
        ("/", "Cluster"),
        ("/jobs", "Jobs"),
        ("/timeline", "Timeline"),
        ("/rounds", "Rounds"),
        *([("/teams", "Teams")] if shared else []),
        ("/nodes", "Nodes"),
        ("/what-if", "What-if"),
    ]
    found += [("/audit", "Audit")] if role is Role.OPERATOR else []
    return found + ([] if role is Role.VIEWER else [("/tokens", "Tokens")])


async def colours(request: Request) -> dict[str, int]:
    """Return the colour of each GPU type of the cluster, the same on every page."""
    view = await ask_shared(request, "cluster", NOBODY, keep_s=TYPES_S)
    return colours_of(row["gpu_type"] for row in (*view["nodes"], *view["asleep"]))
