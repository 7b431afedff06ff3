"""Gives each GPU type one colour, the same on every page. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

COLOURS = 8  # classes `type-0` … in `static/page.css`: colours that colour-blind people can tell apart


def colours_of(gpu_types: Iterable[str]) -> dict[str, int]:
    """Return the number of the colour of each type.

    It goes by the name, so that it seldom changes when other types come. Two types share a colour only where there
    are more types than colours.
    """
    found: dict[str, int] = {}
    for gpu_type in sorted(set(gpu_types)):
        wanted = hashlib.sha256(gpu_type.encode()).digest()[0] % COLOURS
        taken = set(found.values())
        free = [at % COLOURS for at in range(wanted, wanted + COLOURS) if at % COLOURS not in taken]
        found[gpu_type] = free[0] if free else wanted
    return found
