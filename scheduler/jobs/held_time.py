"""How long a job has held GPUs: sums that are kept up to date, so that nobody queries the store. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

TRAINING = ""  # key of the open interval of training; the key of a profile run is its GPU type


@dataclass(frozen=True)
class HeldTime:
    """What sums need of one job's intervals. Times are seconds since the epoch."""

    ended_gpu_s: float = 0.0  # over all ended intervals, profile runs included
    served: tuple[tuple[float, float], ...] = ()  # ended intervals of training: start, end
    open: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # key -> start, GPUs by their shares

    def begun(self, key: str, start_s: float, gpus: float) -> HeldTime:
        """Return the sums with an interval that begins."""
        return replace(self, open={**self.open, key: (start_s, gpus)})

    def ended(self, key: str, now: float) -> HeldTime:
        """Return the sums with the open interval of a key ended. They stay the same if there is none."""
        if key not in self.open:
            return self
        start_s, gpus = self.open[key]
        return HeldTime(
            self.ended_gpu_s + gpus * (now - start_s),
            (*self.served, (start_s, now)) if key == TRAINING else self.served,
            {other: since for other, since in self.open.items() if other != key},
        )

    def gpu_s(self, now: float) -> float:
        """Return the GPU-seconds held so far, over all GPU types."""
        total = self.ended_gpu_s
        for start_s, gpus in self.open.values():
            total += gpus * (now - start_s)
        return total

    def served_s(self, since: float, now: float) -> float:
        """Return seconds between `since` and `now` in which the job trained (s_i(τ) of Sia, section 3.5.6)."""
        total = 0.0
        for start_s, end_s in reversed(self.served):
            if end_s <= since:
                break
            total += end_s - max(start_s, since)
        if TRAINING in self.open and now > since:
            total += now - max(self.open[TRAINING][0], since)
        return total
