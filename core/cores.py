"""Lists of cores as Linux writes them: `0-3,8`. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def listed(cores: Iterable[int]) -> str:
    """Return cores as one text, ascending, with neighbours joined; none: an empty text."""
    runs: list[list[int]] = []
    for core in sorted(set(cores)):
        if runs and runs[-1][1] == core - 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def cores_of(text: str) -> tuple[int, ...]:
    """Return the cores of such a text. Raises: ValueError for another one."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        found += range(int(first), int(last if dash else first) + 1)
    return tuple(found)
