"""What routes share: the scheduler behind them, and who asks."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from ..core.api_settings import ApiSettings
from ..core.identity import Identity, Reader, Role
from ..core.json_numbers import answer_text
from .access import RULES, changes, may, reads_metrics, sees
from .arrivals import Arrivals
from .feed import Feed
from .metrics import ApiMetrics
from .problems import TITLES, Problem
from .scheduler import Scheduler
from .sessions import check_sender, session_token
from .shared import Shared
from .studies import Studies

KNOWN_S = 5.0  # for so long a token that was good is not asked for again
MOST_KNOWN = 10_000
MOST_TARGET = 200  # characters of what a change is of
MOST_VERB = 50
UNREAD = (400, 408, 413, 422)  # a body or parameters that are not accepted, before anything is asked of a desk


class Context:
    """The state of one app."""

    def __init__(self, scheduler: Scheduler, settings: ApiSettings, studies: Studies | None = None) -> None:
        self._settings, self.studies = settings, studies
        self.scheduler = scheduler
        self.shared = Shared(scheduler.call, lambda: self.feed.streams > 0)
        self.feed = Feed(scheduler, self.shared.forget)
        self.arrivals = Arrivals()
        self.metrics = ApiMetrics(scheduler, lambda: self.feed.streams)
        self._known: OrderedDict[str, tuple[float, Identity]] = OrderedDict()
        self._owners: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._asked_owners: dict[str, asyncio.Task[tuple[str, str]]] = {}

    async def identify(self, request: Request) -> Identity:
        """Return who asks: by a token, or by the word of a proxy that is trusted. Raises: Problem."""
        if (named := self._named_by_proxy(request)) is not None:
            check_sender(request, self._settings.public_url)
            found = await self.scheduler.call("known_user", named)
            if isinstance(found, str):
                raise Problem(401, found)
            return Identity(found["user"], Role(found["role"]), teams=tuple(found.get("teams", ())))
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if not scheme and (token := session_token(request)):
            scheme = "Bearer"
        if not token:
            raise Problem(401, "no token: send `Authorization: Bearer TOKEN`; `coadapt login` stores one")
        if scheme.lower() != "bearer":
            raise Problem(401, f"the scheme {scheme[:20]} is not accepted; send `Authorization: Bearer TOKEN`")
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
        known = self._known.get(digest)
        if known is not None and time.monotonic() - known[0] < KNOWN_S:
            return known[1]
        found = await self.scheduler.call("authenticate", token)
        if isinstance(found, str):
            self._known.pop(digest, None)
            raise Problem(401, found)
        who = Identity(found["user"], Role(found["role"]), found["token_id"], tuple(found.get("teams", ())))
        self._known[digest] = time.monotonic(), who
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return who

    def _scrapes(self, request: Request) -> bool:
        """Return whether a request may read metrics though it is no user's."""
        peer = request.client.host if request.client is not None else ""
        passed_on = any(name in request.headers for name in ("forwarded", "x-forwarded-for"))
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return reads_metrics(self._settings, peer, passed_on, token if scheme.lower() == "bearer" else "")

    def _named_by_proxy(self, request: Request) -> str | None:
        """Return the user whom a trusted proxy names; None: no such proxy asks, or it names nobody."""
        if request.client is None or request.client.host not in self._settings.trusted_proxies:
            return None
        return request.headers.get(self._settings.user_header) or None

    def origin(self, request: Request) -> str:
        """Return the address that a request comes from, behind proxies that are trusted."""
        host = "" if request.client is None else request.client.host
        if host in self._settings.trusted_proxies:
            return request.headers.get("x-forwarded-for", host).rpartition(",")[2].strip()[:100]
        return host

    async def whose(self, job_id: str) -> tuple[str, str]:
        """Return the owner and the team of a job, which never change. Raises: KeyError for an unknown job."""
        if job_id in self._owners:
            return self._owners[job_id]
        if job_id not in self._asked_owners:  # all who follow events ask at once for a new job's
            self._asked_owners[job_id] = asyncio.create_task(self._ask_owner(job_id))
        # Who goes away meanwhile takes the answer from nobody.
        return await asyncio.shield(self._asked_owners[job_id])

    async def _ask_owner(self, job_id: str) -> tuple[str, str]:
        try:
            owner, team = await self.scheduler.call("whose", job_id)
            found = self._owners[job_id] = str(owner), str(team)
        finally:
            del self._asked_owners[job_id]
        while len(self._owners) > MOST_KNOWN:
            self._owners.popitem(last=False)
        return found

    def forget_tokens(self) -> None:
        """Ask for every token anew, as after one was revoked."""
        self._known.clear()

    async def allow(self, request: Request) -> Identity | None:
        """Return who asks, if that one may use the route. Raises: Problem; KeyError for an unknown job."""
        path = request.scope["route"].path
        rule = RULES[request.method, path]
        if rule.role is None or (rule.scraped and self._scrapes(request)):
            return None
        request.state.who = who = await self.identify(request)
        if not may(who, rule):
            raise Problem(403, f"{who.user} has the role {who.role}, and this needs {rule.role}")
        job_id = request.path_params.get("job_id")
        if rule.of_job and job_id is not None:
            owner, team = await self.whose(job_id)
            if not sees(who, owner, team):
                raise Problem(404, f"no job {job_id}", hidden=True)  # as for one that is not there
            if rule.changes and not rule.by_team and not changes(who, owner):
                raise Problem(403, f"{job_id} is {owner or 'nobody'}'s job, and {who.user} may not change it")
        return who


def context(request: Request) -> Context:
    """Return the state of the app that a request came to."""
    found: Context = request.app.state.context
    return found


def who(request: Request) -> Identity:
    """Return who was let in."""
    found: Identity = request.state.who
    return found


def reader_of(request: Request) -> Reader | None:
    """Return who asks, where only some jobs are told; None: those of all are."""
    asker = who(request)
    return Reader(asker.user, asker.teams) if asker.role is Role.USER else None


async def may_read(request: Request, job_id: str) -> bool:
    """Return whether who asks is told of a job; one that was removed is nobody's."""
    try:
        return sees(who(request), *await context(request).whose(job_id))
    except KeyError:
        return False


async def team_if_others(request: Request, job_id: str) -> str | None:
    """Return the team of a job of which who asks is not told; "": of none. None: it may be told."""
    try:
        owner, team = await context(request).whose(job_id)
    except KeyError:
        return ""
    return None if sees(who(request), owner, team) else team


async def ask(request: Request, method: str, *args: Any) -> Any:
    """Return what the scheduler answers."""
    return await context(request).scheduler.call(method, *args)


async def ask_shared(request: Request, method: str, *args: Any, keep_s: float | None = None) -> Any:
    """Return what the scheduler answers, or has answered a moment ago. `args` say what may be told to whom."""
    return await context(request).shared.ask(method, *args, keep_s=keep_s)


async def change(request: Request, method: str, *args: Any) -> Any:
    """Return what the scheduler answers to a change, which it writes to the audit log."""
    request.state.audited = True
    try:
        return await context(request).scheduler.call("audited", about(request), method, args)
    finally:
        context(request).shared.forget()


def nothing_changes(request: Request) -> None:
    """Say that a route which changes something does not do so this time."""
    request.state.audited = True


async def tell_done(request: Request) -> None:
    """Have the audit log tell of a change that nobody has told it of."""
    route = request.scope.get("route")
    rule = None if route is None else RULES.get((request.method, route.path))
    if rule is not None and rule.changes and not getattr(request.state, "audited", False):
        await context(request).scheduler.call("done", about(request))


async def tell_refused(request: Request, problem: Problem) -> None:
    """Have the audit log tell of a change that was not let through.

    Of what was not accepted as it came only the kind of the problem is told: its sentence may repeat the body.
    """
    forbidden = problem.status in (401, 403) or problem.hidden
    unread = problem.status in UNREAD and not getattr(request.state, "audited", False)
    route = request.scope.get("route")
    rule = None if route is None else RULES.get((request.method, route.path))
    if (forbidden or unread) and rule is not None and rule.changes:
        why = problem.detail if forbidden else TITLES[problem.status].lower()
        with suppress(Exception):  # the answer is the same where the scheduler is away
            await context(request).scheduler.call("refused", about(request), f"{problem.status}: {why}")


def about(request: Request) -> dict[str, str]:
    """Return who asks for what, as the audit log has it."""
    path = request.scope["route"].path
    told = request.path_params
    named = [str(getattr(value, "value", value)) for name, value in told.items() if name != "verb"]
    verb = RULES[request.method, path].verb or f"{request.method} {path}"
    asker = getattr(request.state, "who", None)
    return {
        "verb": verb.format(**{name: getattr(value, "value", value) for name, value in told.items()})[:MOST_VERB],
        "user": "" if asker is None else asker.user,
        "role": "" if asker is None else asker.role.value,
        "origin": context(request).origin(request),
        "request": request.state.request_id,
        "target": "/".join(named)[:MOST_TARGET],
    }


def answer(view: Any, status: int = 200) -> Response:
    """Return plain data as JSON. What is no number there is text, and null among metrics."""
    return Response(answer_text(view), status, media_type="application/json")
