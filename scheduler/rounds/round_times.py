"""When the next round is due. Pure but for the clock that it is given."""

from __future__ import annotations

import math

from ...core.settings import Settings
from ..runtime.clock import Clock

MOST_SHARE = 0.2  # of the time that rounds take which were asked for


class RoundTimes:
    """Know when a round was asked for, when the last one began, and when the policy wants to be asked again.

    Where jobs come and go all the time and rounds take long, they leave time for all else.
    """

    def __init__(self, clock: Clock, settings: Settings) -> None:
        self._clock, self._settings = clock, settings
        self._asked_at_s: float | None = clock.monotonic_s() - settings.debounce_s  # the first round comes at once
        self._last_s = clock.monotonic_s()
        self._again_s: float | None = None  # by the steady clock
        self._rests_until_s = -math.inf  # no asked round begins before

    def ask(self) -> None:
        """Have a round soon; several reasons within the debounce time share one."""
        if self._asked_at_s is None:
            self._asked_at_s = self._clock.monotonic_s()

    def begin(self) -> None:
        """Note that a round begins, which answers all that was asked until now."""
        self._asked_at_s, self._again_s = None, None
        self._last_s = self._clock.monotonic_s()

    def end(self) -> None:
        """Note that the round which began last is over."""
        now_s = self._clock.monotonic_s()
        self._rests_until_s = now_s + (now_s - self._last_s) * (1 / MOST_SHARE - 1)

    def ask_again(self, again_s: float | None, now: float) -> None:
        """Have a round at a time of the steady clock; one that is over was asked for by now."""
        if again_s is not None and again_s > now:
            self._again_s = again_s

    @property
    def due(self) -> bool:
        """Return whether a round is to begin now."""
        now_s, asked = self._clock.monotonic_s(), self._asked_at_s
        early = asked is not None and now_s >= max(asked + self._settings.debounce_s, self._rests_until_s)
        again = self._again_s is not None and self._clock.steady_s() >= self._again_s
        return early or again or now_s - self._last_s >= self._settings.round_interval_s

    @property
    def idle_s(self) -> float:
        """Return seconds until the next cycle is due at the latest."""
        refresh_s, asked = self._settings.node_refresh_s, self._asked_at_s
        if asked is None:
            return refresh_s
        left_s = max(asked + self._settings.debounce_s, self._rests_until_s) - self._clock.monotonic_s()
        return min(max(left_s, 0.01), refresh_s)
