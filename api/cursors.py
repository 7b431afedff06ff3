"""Cursors: opaque texts for places in the answers to a query. What a cursor holds is checked like any input."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from ..core.json_numbers import dumps
from ..core.output_tree import MAX_DEPTH, Name, is_name
from .problems import Problem

MOST_NUMBER = 2**63 - 1  # that a store can compare
_ACCEPTED = "the `next` of an answer to the same query"


def cursor_of(place: int | Sequence[str], query: Any) -> str:
    """Return a cursor for a place in the answers to a query."""
    return base64.urlsafe_b64encode(dumps([place, _digest(query)]).encode()).decode().rstrip("=")


def number_of_place(cursor: str | None, query: Any) -> int | None:
    """Return the number that a cursor holds; None: the first place. Raises: Problem for one of no such query."""
    if cursor is None:
        return None
    place = _place(cursor, query)
    if type(place) is not int or not 0 <= place <= MOST_NUMBER:  # true and false are numbers otherwise
        raise _bad(cursor)
    return place


def name_of_place(cursor: str | None, query: Any) -> Name:
    """Return the name that a cursor holds; (): the first place. Raises: Problem for one of no such query."""
    if cursor is None:
        return ()
    place = _place(cursor, query)
    if not isinstance(place, list) or len(place) > MAX_DEPTH or not all(isinstance(part, str) for part in place):
        raise _bad(cursor)
    name = tuple(place)
    if not is_name(name):
        raise _bad(cursor)
    return name


def _place(cursor: str, query: Any) -> Any:
    """Return what a cursor holds, of whatever type. Raises: Problem."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        held = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, RecursionError):  # no base64, no JSON, or lists within lists without end
        raise _bad(cursor) from None
    if not isinstance(held, list) or len(held) != 2 or held[1] != _digest(query):
        raise _bad(cursor)
    return held[0]


def _bad(cursor: str) -> Problem:
    return Problem(400, f"cursor: this is not {_ACCEPTED}", field="cursor", value=cursor, accepted=_ACCEPTED)


def _digest(query: Any) -> str:
    return hashlib.sha256(dumps(query).encode()).hexdigest()[:16]
