"""The app: routes, who may use them, and problems in place of errors."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from ..core.api_settings import ApiSettings
from ..core.refused_values import refused
from . import (
    audit_routes,
    care_routes,
    cluster_page_routes,
    cluster_routes,
    event_routes,
    health_routes,
    identity_routes,
    job_routes,
    log_routes,
    metrics_routes,
    node_routes,
    output_routes,
    package_routes,
    page_routes,
    secret_routes,
    sign_in_routes,
    standing_routes,
    study_routes,
    team_page_routes,
    team_routes,
    usage_routes,
    webhook_routes,
    whatif_routes,
)
from .access import RULES
from .context import UNREAD, Context, context, tell_done, tell_refused
from .description import describe
from .pages import problem_page
from .problems import TITLES, Problem, problem_of
from .scheduler import Scheduler
from .studies import Studies

log = logging.getLogger(__name__)

_ROUTERS = (
    audit_routes,
    care_routes,
    cluster_page_routes,
    cluster_routes,
    event_routes,
    health_routes,
    identity_routes,
    job_routes,
    log_routes,
    metrics_routes,
    node_routes,
    output_routes,
    package_routes,
    page_routes,
    secret_routes,
    sign_in_routes,
    standing_routes,
    study_routes,
    team_page_routes,
    team_routes,
    usage_routes,
    webhook_routes,
    whatif_routes,
)


REQUEST_ID = "X-Request-ID"
_GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


async def _let_in(request: Request) -> None:
    await context(request).allow(request)


def make_app(scheduler: Scheduler, settings: ApiSettings | None = None, studies: Studies | None = None) -> FastAPI:
    """Return the app over a scheduler.

    Args:
        settings: say which proxies it believes; by default none.
        studies: that it keeps; by default none.
    """
    app = FastAPI(
        title="Coadapt",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        dependencies=[Depends(_let_in)],
    )
    app.state.context = Context(scheduler, settings or ApiSettings(), studies)
    for one in _ROUTERS:
        app.include_router(one.router)
    app.add_exception_handler(RequestValidationError, _refused_parameters)
    app.add_exception_handler(HTTPException, _of_http)
    app.middleware("http")(_with_problems)
    _check_table(app)
    describe(app)
    return app


async def _with_problems(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
    began_s = time.monotonic()
    told = request.headers.get(REQUEST_ID, "")
    request.state.request_id = told if _GOOD_ID.fullmatch(told) else uuid.uuid4().hex[:16]
    try:
        _check_characters(request)
        answer = await go_on(request)
        if answer.status_code < 400:
            await tell_done(request)
        elif answer.status_code in UNREAD:  # of parameters, which the framework looks at
            await tell_refused(request, Problem(answer.status_code, ""))
    except Exception as error:
        problem = problem_of(error)
        if problem.status == 500:
            log.exception("%s %s", request.method, request.url.path)
        await tell_refused(request, problem)
        answer = _told(request, problem)
    answer.headers[REQUEST_ID] = request.state.request_id
    route = getattr(request.scope.get("route"), "path", None)
    context(request).metrics.answered(request.method, route, answer.status_code, time.monotonic() - began_s)
    return answer


def _told(request: Request, problem: Problem) -> Response:
    """Return a problem as a program reads it, or as a person does whose browser asks for a page."""
    route = request.scope.get("route")
    rule = None if route is None else RULES.get((request.method, route.path))
    if rule is None or not rule.page:
        return problem.answer()
    if problem.status == 401 and "hx-request" not in request.headers:
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"/sign-in?{urlencode({'next': request.url.path + query})}", 303)
    return problem_page(problem.status, TITLES[problem.status], problem.detail)


def _check_characters(request: Request) -> None:
    """Refuse a NUL character, which no store keeps. Raises: Problem."""
    if "\0" in request.scope["path"] or b"%00" in request.scope["query_string"]:
        raise Problem(400, "the URL has a NUL character in it")


async def _refused_parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"][1:])
    if first["type"] == "missing":
        return _told(request, Problem(422, f"{field}: missing", field=field))
    sentence = refused(first)
    accepted = sentence.partition(" is not ")[2]
    told = Problem(422, f"{field}: {sentence}", field=field, value=first.get("input"), accepted=accepted)
    return _told(request, told)


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return Problem(404, f"there is no {request.url.path} here").answer()
    if error.status_code == 405:
        return Problem(405, f"{request.url.path} does not take {request.method}").answer()
    return Problem(error.status_code, str(error.detail)).answer()


def _check_table(app: FastAPI) -> None:
    """Raise RuntimeError unless the routes are those of the table."""
    served = {(method, route.path) for one in _ROUTERS for route in one.router.routes for method in route.methods}
    if served != set(RULES):
        raise RuntimeError(f"routes and table differ: {sorted(served ^ set(RULES))}")
