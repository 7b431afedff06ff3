"""When a process of this machine began, which tells it from a later one with the same id."""

from __future__ import annotations


def started_of(pid: int) -> int | None:
    """Return when a process began, in ticks since the machine did; None: it is gone, or is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            words = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in "ZX" else int(words[19])
