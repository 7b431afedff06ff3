"""Signing a browser in and out."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from ..core.errors import IdentityError
from ..dashboard.rendering import page
from . import bodies
from .context import answer, change, context, who
from .pages import html
from .problems import Problem
from .sessions import check_same_site, forget, keep

router = APIRouter()
FORM = "application/x-www-form-urlencoded"
MOST_FORM = 4096


@router.get("/sign-in", include_in_schema=False)
async def sign_in_page(
    request: Request,
    key: Annotated[str, Query(max_length=200)] = "",
    next: Annotated[str, Query(max_length=2000)] = "/",
) -> Response:
    """Return the page that asks for a token; with a one-time key it asks for none."""
    return html(_form(key=key, after=_own_path(next)))


@router.post("/sign-in", include_in_schema=False)
async def sign_in(request: Request) -> Response:
    """Sign a browser in by a token or a one-time key, and send it on."""
    check_same_site(request)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise Problem(422, f"the body is not {FORM}")
    try:
        told = parse_qs((await bodies.whole(request, MOST_FORM)).decode(), max_num_fields=10)
    except ValueError:
        raise Problem(422, "the body is no form") from None
    after = _own_path(told.get("next", ["/"])[0])
    try:
        made = await change(request, "begin_session", told.get("token", [""])[0].strip())
    except IdentityError as error:
        return html(_form(told=f"{error}.", after=after), 401)
    sent_on = RedirectResponse(after, 303)
    keep(request, sent_on, made["token"])
    return sent_on


@router.post("/sign-out", include_in_schema=False)
async def sign_out(request: Request) -> Response:
    """Revoke the token of a browser."""
    asker = who(request)
    if asker.token_id:
        await change(request, "revoke_token", asker.token_id, asker.user)
        context(request).forget_tokens()
    done = answer({"changed": True})
    forget(request, done)
    return done


@router.post("/v1/page-keys", status_code=201)
async def new_key(request: Request) -> Response:
    """Make a key with which a browser signs in once, as oneself."""
    made = await change(request, "issue_page_key", who(request).user)
    return answer({"key": made["token"], "expires_s": made["expires_s"]}, 201)


def _form(*, key: str = "", told: str = "", after: str = "/") -> str:
    return page("sign_in", key=key, told=told, next=after)


def _own_path(told: str) -> str:
    """Return a path of this page, or its first one: nobody is sent to another site."""
    parts = urlsplit(told)
    own = told.startswith("/") and not told.startswith(("//", "/\\")) and not parts.scheme and not parts.netloc
    return told if own and told.isprintable() and parts.path not in ("/sign-in", "/sign-out") else "/"
