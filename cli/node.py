"""`coadapt node`: machines, and powering them off and on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.errors import PowerError
from .exit_codes import Exit

if TYPE_CHECKING:
    from ..client.client import Client

DONE = {
    "sleep": "is to sleep once nothing runs there",
    "wake": "is woken",
    "keep": "is never powered off until `coadapt node keep NAME --undo`",
    "unkeep": "may be powered off again",
    "forget": "is forgotten",
}
BEFORE = {
    "sleep": "sleeps already, or is about to",
    "wake": "is on already, or wakes",
    "keep": "was kept before",
    "unkeep": "was not kept",
    "forget": "was not known",
}


def each(client: Client, verb: str, names: list[str], show: Callable[[Any], None] | None) -> Exit:
    """Do a verb to machines, and tell of each what became of it. The others follow one that refuses.

    Args:
        show: takes the rows of all machines instead of lines.
    """
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(names):
        try:
            rows.append({"machine": name, "done": client.power(verb, name)})
        except PowerError as error:
            rows.append({"machine": name, "done": False, "refused": str(error)})
            print(f"coadapt: {error}", file=sys.stderr)
            continue
        if show is None:
            print(f"{name} {(DONE if rows[-1]['done'] else BEFORE)[verb]}")
    if show is not None:
        show(rows)
    return Exit.USAGE if any("refused" in row for row in rows) else Exit.OK
