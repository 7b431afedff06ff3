"""Whether the store takes what is to be stored. While it does not, nothing is changed and nothing is commanded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..core.errors import StateError
from .clock import Clock
from .store.failures import StoreFailure

SLOW_S = 1.0  # a write that takes longer is told


@dataclass(frozen=True)
class Degraded:
    """Nothing can be stored since a moment (seconds since 1970), and why."""

    since_s: float
    reason: str

    @property
    def text(self) -> str:
        """Return it as a sentence for a person."""
        at = time.strftime("%H:%M:%S", time.localtime(self.since_s))
        return f"degraded since {at}: {self.reason}; jobs go on with what they have, and it heals by itself"


class StoreWatch:
    """Notes each write of the store. Several threads may call it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.degraded: Degraded | None = None
        self.last_write_s = 0.0

    def wrote(self, error: StoreFailure | None, seconds: float) -> None:
        """Take note of a write that has failed, or of one that was kept."""
        self.last_write_s = seconds
        if error is None:
            self.degraded = None
        elif self.degraded is None or self.degraded.reason != str(error):
            since_s = self._clock.wall_s() if self.degraded is None else self.degraded.since_s
            self.degraded = Degraded(since_s, str(error))

    @contextmanager
    def storing(self) -> Iterator[None]:
        """Refuse at once what cannot be stored now. Raises: StateError, in one sentence."""
        if (found := self.degraded) is not None:
            raise StateError(f"the scheduler takes no changes now; it is {found.text}")
        try:
            yield
        except StoreFailure as error:
            raise StateError(f"{error}; nothing was changed, and the same may work later") from None

    def notes(self) -> list[str]:
        """Return sentences for an operator."""
        if self.degraded is not None:
            return [self.degraded.text]
        if self.last_write_s > SLOW_S:
            return [f"the store is slow: its last write took {self.last_write_s:.1f} s"]
        return []
