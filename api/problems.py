"""Answers that tell what is wrong, as RFC 9457 has them: a sentence, and where it helps what would fit."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import Response
from pydantic import ValidationError

from ..core.errors import (
    IdentityError,
    JobStateError,
    KeyReusedError,
    NodeOrderError,
    OutputError,
    PackageError,
    PowerError,
    SecretError,
    SettingError,
    StateError,
    StoreError,
    TeamsError,
    WebhookError,
    WhatIfError,
)
from ..core.job_limits import JobLimitError
from ..core.refused_values import refused

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 5
TITLES = {
    400: "Bad request",
    401: "Who are you",
    403: "Not allowed",
    404: "Not found",
    405: "No such method",
    408: "Too slow",
    409: "Does not fit",
    413: "Too large",
    422: "Not accepted",
    500: "Internal error",
    502: "Storage failed",
    503: "Not now",
}
MOST_SHOWN = 200  # characters of a value


class Problem(Exception):
    """An answer that is a problem.

    Args:
        status: of HTTP.
        detail: one sentence for a person.
        field, value, accepted: where one value is to blame.
        hidden: it hides that something is not the asker's.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        field: str = "",
        value: object = None,
        accepted: str = "",
        hidden: bool = False,
    ) -> None:
        super().__init__(detail)
        self.hidden = hidden
        self.status, self.detail = status, detail
        self.field, self.value, self.accepted = field, value, accepted

    def answer(self) -> Response:
        """Return it as an HTTP answer."""
        body: dict[str, Any] = {
            "type": "about:blank",
            "title": TITLES.get(self.status, "Problem"),
            "status": self.status,
            "detail": self.detail,
        }
        if self.field:
            body |= {"field": self.field, "value": _shown(self.value)}
        if self.accepted:
            body["accepted"] = self.accepted
        headers = {"Retry-After": str(RETRY_AFTER_S)} if self.status == 503 else {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return Response(json.dumps(body), self.status, headers, MEDIA_TYPE)


def _shown(value: object) -> object:
    """Return a value as it is told: short, and valid JSON."""
    if value is None or isinstance(value, bool | int):
        return value
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


# What the scheduler raises, and the status that says so.
_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (JobStateError, 409),
    (PowerError, 409),
    (NodeOrderError, 422),
    (KeyReusedError, 422),
    (IdentityError, 422),
    (PackageError, 422),
    (SettingError, 422),
    (SecretError, 422),
    (TeamsError, 422),
    (WebhookError, 422),
    (WhatIfError, 422),
    (StateError, 503),  # before the errors of a store, of which one may come and go
    (StoreError, 409),
    (OutputError, 502),
)


def problem_of(error: Exception) -> Problem:
    """Return the problem that an error of the scheduler or of a body is."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, ValidationError):
        return of_validation(error)
    if isinstance(error, KeyError):
        return Problem(404, str(error.args[0]) if error.args else "there is no such thing")
    if isinstance(error, JobLimitError):
        first = error.problems[0]
        return Problem(422, first, field=f"spec.{first.partition(':')[0]}")
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return Problem(status, str(error))
    why = str(error).splitlines()[0] if str(error) else "no reason told"
    return Problem(500, f"{type(error).__name__}: {why}")


def of_validation(error: ValidationError, inside: str = "") -> Problem:
    """Return the first thing that is wrong with a body. `inside`: the field that holds what was checked."""
    first = error.errors(include_url=False)[0]
    parts = [inside, *(str(part) for part in first["loc"])]
    field = ".".join(part for part in parts if part) or "body"
    if first["type"] == "extra_forbidden":
        return Problem(422, f"{field}: unknown field", field=field, value=first.get("input"))
    if first["type"] == "missing":
        return Problem(422, f"{field}: missing", field=field)
    if first["type"] == "value_error":
        return Problem(422, f"{field}: {first['ctx']['error']}", field=field, value=first.get("input"))
    sentence = refused(first)
    accepted = sentence.partition(" is not ")[2]
    return Problem(422, f"{field}: {sentence}", field=field, value=first.get("input"), accepted=accepted)
