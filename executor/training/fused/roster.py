"""Which trials are left, for values that a script holds from before others were dropped.

A value has the places that trials had when it was made. When it is used later, it is cut to those that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_kept: list[tuple[int, tuple[int, ...]]] = []  # how many trials there were, and which places of them stayed


def age() -> int:
    """Return how often trials were dropped by now; what is made now has that age."""
    return len(_kept)


def dropped(before: int, places: Sequence[int]) -> None:
    """Note that of so many trials only those at these places are left, in this order."""
    _kept.append((before, tuple(places)))


def places_left(count: int, since: int) -> list[int] | None:
    """Return which places of a value of `count` trials are left, made at an age; None: all of them."""
    if since == len(_kept):
        return None
    places = list(range(count))
    for before, stayed in _kept[since:]:
        if len(places) != before:
            return None  # it is of another group
        places = [places[place] for place in stayed]
    return places
