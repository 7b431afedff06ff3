"""Translates between the steady clock, by which records go, and the machine's, by which people do."""

from __future__ import annotations

from typing import Any

from ..runtime.clock import Clock
from ..views.shown_moments import shown


class Moments:
    """The moments of one service."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @property
    def ahead_s(self) -> float:
        """By how much the machine's clock is ahead of the steady one."""
        return self._clock.wall_s() - self._clock.steady_s()

    @property
    def now_s(self) -> float:
        """Return the moment of now, by the steady clock."""
        return self._clock.steady_s()

    def shown(self, view: Any) -> Any:
        """Return a view whose moments are by the machine's clock."""
        return shown(view, self.ahead_s)

    def steady_s(self, since_s: float | None) -> float | None:
        """Return a moment, in seconds since 1970, by the steady clock; None for None."""
        return None if since_s is None else since_s - self.ahead_s
