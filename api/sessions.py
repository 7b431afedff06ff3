"""Browsers that are signed in: a cookie that holds a token, and a second word that other sites cannot send."""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.responses import Response

from .problems import Problem

SAFE = ("GET", "HEAD", "OPTIONS")
PAGE_HEADER = "X-Coadapt-Page"
KEPT_S = 7 * 86_400


def cookie_name(request: Request) -> str:
    """Return what the cookie is called. Browsers send cookies to all ports of a host, and it may have several."""
    return f"coadapt_{request.url.port or (443 if request.url.scheme == 'https' else 80)}"


def session_token(request: Request) -> str:
    """Return a browser's token; "": it has none. Raises: Problem for a change that no page asks for."""
    token = request.cookies.get(cookie_name(request), "")
    if token and request.method not in SAFE:
        told = request.headers.get(PAGE_HEADER, "")
        if not hmac.compare_digest(told.encode("utf-8", "surrogateescape"), page_word(token).encode()):
            raise Problem(
                403, f"the header {PAGE_HEADER} is not that of a page of this browser; load the page anew"
            )
    return token


def page_word(token: str) -> str:
    """Return what a page sends along with each change: only who has read the page knows it."""
    return hmac.new(token.encode("utf-8", "surrogateescape"), b"coadapt page", hashlib.sha256).hexdigest()[:32]


def check_same_site(request: Request) -> None:
    """Refuse a form that another site has sent. Raises: Problem."""
    _check_fetch(request)
    origin = request.headers.get("origin")
    here = f"{request.url.scheme}://{request.headers.get('host', '')}"
    if origin not in (None, "null", here):
        raise Problem(403, "this form was sent by another site; open the page of this cluster and sign in there")


def check_sender(request: Request, public_url: str) -> None:
    """Refuse a change that a browser sends for another site, whoever vouches for its user.

    Where a page is not encrypted, browsers say only its origin. A proxy may end encryption, so only hosts count.

    Args:
        public_url: by which people reach this, whatever host a proxy names; "": by the host that it names.

    Raises: Problem.
    """
    _check_fetch(request)
    origin = request.headers.get("origin")
    if request.method in SAFE or "sec-fetch-site" in request.headers or origin is None:
        return
    hosts = {request.headers.get("host", ""), urlsplit(public_url).netloc} - {""}
    if urlsplit(origin).netloc not in hosts:
        raise Problem(
            403,
            f"this was sent by {origin[:100]}, and only {' and '.join(sorted(hosts))} may; open the page of this "
            "cluster and do it there, or let `api.public_url` name its host",
        )


def _check_fetch(request: Request) -> None:
    site = request.headers.get("sec-fetch-site", "none")
    if request.method not in SAFE and site not in ("same-origin", "none"):
        raise Problem(403, "this was sent by another site; open the page of this cluster and do it there")


def keep(request: Request, answer: Response, token: str) -> None:
    """Have the browser keep a token, which no script can read and no other site can use."""
    answer.set_cookie(
        cookie_name(request),
        token,
        max_age=KEPT_S,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def forget(request: Request, answer: Response) -> None:
    """Have the browser forget its token."""
    answer.delete_cookie(cookie_name(request), path="/", httponly=True, samesite="strict")
