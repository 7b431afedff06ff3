"""Which nodes take no new work, why, and by when what runs there must have left. Pure.

A node may be closed for several reasons at once: an operator's order, a maintenance window, a notice of its cloud,
Ray. The most urgent one counts, and all of them are told.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """Who closes a node."""

    OPERATOR = "operator"
    WINDOW = "window"  # an operator's maintenance window
    NOTICE = "notice"  # its cloud, which takes it away
    RAY = "ray"


@dataclass(frozen=True)
class Closure:
    """Why a node takes no new work.

    machine: the name that people know the node by.
    what: a clause such as "cordoned by ann" or "drained by ann".
    why: what was told as a reason; "": nothing.
    leaves: whether what runs there has to leave.
    deadline_s: by when it must have left, by the steady clock; None: there is no hurry.
    """

    source: Source
    machine: str
    what: str
    why: str = ""
    leaves: bool = False
    deadline_s: float | None = None

    def told(self, ahead_s: float = 0.0) -> str:
        """Return a clause for people. `ahead_s`: by how much the machine's clock is ahead of the steady one."""
        word = "it goes at" if self.source is Source.NOTICE else "until"
        until = "" if self.deadline_s is None else f", {word} {moment(self.deadline_s + ahead_s)}"
        return f"{self.what}{until}{f': {self.why}' if self.why else ''}"


@dataclass(frozen=True)
class Closed:
    """A node that takes no new work, with all reasons, the most urgent one first."""

    reasons: tuple[Closure, ...]

    @property
    def first(self) -> Closure:
        """The reason that counts."""
        return self.reasons[0]

    @property
    def machine(self) -> str:
        return self.first.machine

    @property
    def leaves(self) -> bool:
        """Whether what runs there has to leave."""
        return self.first.leaves

    @property
    def deadline_s(self) -> float | None:
        return self.first.deadline_s

    def told(self, ahead_s: float = 0.0) -> str:
        """Return a clause for people."""
        return "; ".join(one.told(ahead_s) for one in self.reasons)


def together(reasons: Iterable[Closure]) -> Closed | None:
    """Return what several reasons make of a node; None: it is open."""
    found = sorted(reasons, key=_urgency)
    return Closed(tuple(found)) if found else None


def _urgency(one: Closure) -> tuple[bool, bool, float, str]:
    return not one.leaves, one.deadline_s is None, one.deadline_s or 0.0, one.source.value


def moment(wall_s: float) -> str:
    """Return a moment as people say it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall_s))
