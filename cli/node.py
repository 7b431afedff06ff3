"""`coadapt node`: machines, and powering them off and on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.errors import PowerError
from .exit_codes import Exit
from .plain import say

if TYPE_CHECKING:
    from ..client.client import Client

DONE = {
    "sleep": "is to sleep once nothing runs there",
    "wake": "is woken",
    "keep": "is never powered off until `coadapt node keep {name} --undo`",
    "unkeep": "may be powered off again",
    "forget": "is forgotten",
}
BEFORE = {
    "sleep": "sleeps already, or is about to",
    "wake": "is on already, or wakes",
    "keep": "is kept on already",
    "unkeep": "was not kept",
    "forget": "was not known",
}


def each(client: Client, verb: str, names: list[str], show: Callable[[Any], None] | None) -> Exit:
    """Do a verb to machines, and tell of each what became of it. The others follow one that refuses.

    Args:
        show: takes the rows of all machines instead of lines.
    """
    from ..client.client import UnknownJobError

    rows: list[dict[str, Any]] = []
    code = Exit.OK
    for name in dict.fromkeys(names):
        try:
            rows.append({"machine": name, "done": client.power(verb, name)})
        except (PowerError, UnknownJobError) as error:
            code = max(code, Exit.NOT_FOUND if isinstance(error, UnknownJobError) else Exit.USAGE)
            rows.append({"machine": name, "done": False, "refused": str(error)})
            say(f"coadapt: {error}", error=True)
            continue
        if show is None:
            done = (DONE if rows[-1]["done"] else BEFORE)[verb].format(name=name)
            say(f"{name} {done}{_not_woken(client, name) if verb == 'keep' else ''}")
    if show is not None:
        show(rows)
    return code


def _not_woken(client: Client, name: str) -> str:
    """Return that a machine is off which is to be kept on, as nobody wakes it for that."""
    states = {row["machine"]: row["state"] for row in client.machines()}
    return f"; it sleeps, and `coadapt node wake {name}` wakes it" if states.get(name) == "asleep" else ""
