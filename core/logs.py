"""How our processes write their own logs: as text, or as one JSON object a line. No token stands in either."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

ROOT = __name__.partition(".core.")[0]  # the logger above all of ours
LEAST_SECRET = 8  # characters
MOST_CHARACTERS = 20_000  # of one message, which a traceback may be
_SECRETS = re.compile(
    r"""\bcoadapt_[0-9a-f]{12}_[\w-]{43}\b              # our tokens
    | (?<=\bBearer\s)\S+
    | (?<=://)[^/\s:@]+:[^/\s@]+(?=@)                   # a user's password in a URL
    """,
    re.VERBOSE | re.IGNORECASE,
)
_about: ContextVar[dict[str, Any]] = ContextVar("about")


class LogFormat(StrEnum):
    """What a log looks like."""

    TEXT = "text"
    JSON = "json"


@contextmanager
def about(**facts: Any) -> Iterator[None]:
    """Name the job or the round that lines of a block are about."""
    before = _about.get({})
    token = _about.set({**before, **{name: value for name, value in facts.items() if value is not None}})
    try:
        yield
    finally:
        _about.reset(token)


def write_logs(component: str, form: LogFormat, **facts: Any) -> None:
    """Let this process write what it logs to stderr, where Ray keeps it in a file.

    Args:
        component: `scheduler`, `api` or `executor`.
        facts: what all its lines are about, such as its job. `extra={"job": …}` names that of one line.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((_Json if form is LogFormat.JSON else _Text)(component, facts))
    top = logging.getLogger(ROOT)
    top.handlers[:] = [handler]
    top.setLevel(logging.INFO)
    top.propagate = False


def without_secrets(text: str) -> str:
    """Return a text with `***` in place of tokens and passwords."""
    for secret in _of_ray():
        text = text.replace(secret, "***")
    return _SECRETS.sub("***", text)


@cache
def _of_ray() -> tuple[str, ...]:
    """Return the token of this process's Ray cluster, as Ray finds it."""
    found = [os.environ.get("RAY_AUTH_TOKEN", "")]
    with suppress(OSError, ValueError):
        path = os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token"
        found.append(Path(path).read_text())
    return tuple(secret for one in found if len(secret := one.strip()) >= LEAST_SECRET)


class _Form(logging.Formatter):
    def __init__(self, component: str, facts: dict[str, Any]) -> None:
        super().__init__()
        self._component, self._facts = component, facts

    def _told(self, record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
        """Return the message with its traceback, and what it is about."""
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        here = {name: found for name in ("job", "round") if (found := getattr(record, name, None)) is not None}
        return without_secrets(text)[:MOST_CHARACTERS], {**self._facts, **_about.get({}), **here}

    def _time(self, record: logging.LogRecord) -> str:
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{record.msecs:03.0f}Z"


class _Json(_Form):
    def format(self, record: logging.LogRecord) -> str:
        """Return an object: `time`, `level`, `component`, `logger`, `message`; `job`, `round` where known."""
        text, facts = self._told(record)
        row = {"time": self._time(record), "level": record.levelname.lower(), "component": self._component}
        return json.dumps({**row, **facts, "logger": record.name.removeprefix(f"{ROOT}."), "message": text})


class _Text(_Form):
    def format(self, record: logging.LogRecord) -> str:
        """Return a line, and below it the traceback where there is one."""
        text, facts = self._told(record)
        of = "".join(f" {name} {value}" for name, value in facts.items())
        return f"{self._time(record)} {record.levelname} {self._component}{of}: {text}"
