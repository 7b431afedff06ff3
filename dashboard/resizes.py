"""When a job got other GPUs, and why, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.schemas import ResizeRow


@dataclass(frozen=True)
class Resize:
    """One change. `number`: from 1, the oldest is the first. `round_s`: when its round was; None: not known.

    because: why, in clauses; "": not known. text: what changed, and why.
    """

    number: int
    time_s: float
    text: str
    because: str
    round_s: float | None


def resizes(rows: Sequence[ResizeRow]) -> tuple[Resize, ...]:
    """Return what a page lists, oldest first."""
    return tuple(
        Resize(at + 1, row["time_s"], _told(row), _because(row), row["round_s"]) for at, row in enumerate(rows)
    )


def _told(row: ResizeRow) -> str:
    because = _because(row)
    return f"{_change(row)}: {because}" if because else _change(row)


def _change(row: ResizeRow) -> str:
    after = row["text"].removeprefix("is to use ")
    after = _words(after) if row["gpus"] else ""
    if row["before"] is None:
        return f"to {after}" if after else "left its GPUs"
    before = _words(row["before"])
    if not after:
        return f"left its {before}" if before else row["text"]
    if before == after:
        return f"to other nodes, {after} as before"
    return f"from {before} to {after}" if before else f"started on {after}"


def _words(gpus: str) -> str:
    """Return "4 a100" of "4xa100"."""
    return gpus.replace("x", " ", 1)


def _because(row: ResizeRow) -> str:
    return " and ".join(row["because"])
