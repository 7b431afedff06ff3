"""Failed starts in each slot: when the next one is due, and when a slot is given up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...core.slot import Slot

TRIES = 3  # failed starts until a slot is given up
BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 30.0


def backoff_s(failures: int) -> float:
    """Return how long to wait after the n-th failure; each wait is twice the one before."""
    return min(LONGEST_BACKOFF_S, BACKOFF_S * 2.0 ** min(failures - 1, 10))


@dataclass(frozen=True)
class FailedStarts:
    count: int
    not_before_s: float


class SlotTries:
    """Count failed starts since the slots were assigned."""

    def __init__(self) -> None:
        self.given_up: set[Slot] = set()
        self._failed: dict[Slot, FailedStarts] = {}

    def assigned(self, given_up: Iterable[Slot]) -> None:
        """Start anew with other slots, of which some cannot be used at all."""
        self.given_up = set(given_up)
        self._failed = {}

    def started(self, slot: Slot) -> None:
        self._failed.pop(slot, None)

    def failed(self, slot: Slot, now: float) -> int:
        """Count a failed start and return how many there were; the last one gives the slot up."""
        count = self._failed[slot].count + 1 if slot in self._failed else 1
        self._failed[slot] = FailedStarts(count, now + backoff_s(count))
        if count >= TRIES:
            self.given_up.add(slot)
        return count

    def not_before_s(self, slot: Slot) -> float:
        """Return when the next start in a slot may be tried."""
        return self._failed[slot].not_before_s if slot in self._failed else 0.0
