"""How a script's loop treats its batches, looked at while it runs.

A loop that counts its batches has to be given its own ones. One that does not may be given larger ones, which are
faster than several small passes: a whole pass over the data has to show that it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .script_state import leaves

# Batches of a pass that are looked at: a counter moves with each of them.
LOOKS = 6


@dataclass
class LoopHabits:
    """What one process has seen of its script's loop."""

    counts: bool = False
    _counters: dict[str, int] = field(default_factory=dict)
    _moving: set[str] | None = None
    _rates: Sequence[float] = ()
    _batches: int = -1
    _looks: int = 0

    def look(self, batches: int, rates: Sequence[float], has_scheduler: bool) -> None:
        """Called before a batch, when `batches` are done; `rates` are the learning rates now."""
        if self.counts or self._looks > LOOKS:
            return
        now = {path: leaf.value for path, leaf in leaves((int,)).items()}
        if batches == self._batches + 1 and self._looks:
            moved = {name for name, value in now.items() if self._counters.get(name, value) + 1 == value}
            self._moving = moved if self._moving is None else self._moving & moved
            if rates != self._rates and not has_scheduler:
                self.counts = True  # a learning rate that is set by hand goes by a count
        self._counters, self._rates, self._batches = now, list(rates), batches
        self._looks += 1
        if self._looks > 3 and self._moving:
            self.counts = True
        elif self._looks > LOOKS:
            self._counters = {}

    @property
    def looked(self) -> bool:
        """Whether enough was seen to say that the loop does not count."""
        return self._looks > 3
