"""Times epochs of a study's jobs by how far these are at each look, long before the first epoch has ended."""

from __future__ import annotations

from dataclasses import dataclass, field

LEAST_EPOCHS = 0.05  # that a job does while it is timed
LEAST_S = 5.0


@dataclass
class EpochClock:
    """Knows the seconds of an epoch of each group that trains, on the GPUs that it has.

    What comes before a job's first progress is its start, and does not count.
    """

    _first: dict[str, tuple[float, float, int]] = field(default_factory=dict)
    _last: dict[str, float] = field(default_factory=dict)
    _found: dict[str, float] = field(default_factory=dict)

    def look(self, group: str, epochs: float, gpus: int, now_s: float) -> None:
        """Take how many epochs a group has done, as a number with a fraction."""
        began, before = self._first.get(group), self._last.get(group, 0.0)
        self._last[group] = epochs
        if not gpus or epochs <= 0:
            self._first.pop(group, None)
            return
        if began is None or began[2] != gpus or epochs < before:
            self._first[group] = now_s, epochs, gpus
            self._found.pop(group, None)
        elif epochs - began[1] >= LEAST_EPOCHS and now_s - began[0] >= LEAST_S:
            self._found[group] = (now_s - began[0]) / (epochs - began[1])

    def of(self, group: str) -> float | None:
        """Return the seconds of an epoch; None: not known yet."""
        return self._found.get(group)
