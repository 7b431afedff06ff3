"""Whether the store takes what is to be stored. While it does not, nothing is changed and nothing is commanded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ...core.errors import StateError
from ..store.failures import StoreFailure
from .clock import Clock

SLOW_S = 1.0  # a write that takes longer is told


@dataclass(frozen=True)
class Degraded:
    """Nothing can be stored since a moment, and why.

    since_s: seconds since 1970 by the machine's clock. began_s: the same moment by the monotonic clock.
    """

    since_s: float
    reason: str
    began_s: float

    @property
    def text(self) -> str:
        """Return it as a sentence for a person."""
        at = time.strftime("%H:%M:%S", time.localtime(self.since_s))
        return f"degraded since {at}: {self.reason}; jobs go on with what they have, and it heals by itself"


class StoreWatch:
    """Notes each write of the store. Several threads may call it."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.degraded: Degraded | None = None
        self.last_write_s = 0.0

    def wrote(self, error: StoreFailure | None, seconds: float) -> None:
        """Take note of a write that has failed, or of one that was kept."""
        self.last_write_s = seconds
        if error is None:
            self.degraded = None
        elif self.degraded is None or self.degraded.reason != str(error):
            first = self.degraded or Degraded(self.clock.wall_s(), "", self.clock.monotonic_s())
            self.degraded = replace(first, reason=str(error))

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
