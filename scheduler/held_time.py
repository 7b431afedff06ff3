"""How long a job has held GPUs: sums that are kept up to date instead of asked of the store every round. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

TRAINING = ""  # key of the one open interval of training; profile runs stand under their GPU type


@dataclass
class HeldTime:
    """The intervals of one job, as far as sums need them. Times are seconds since the epoch."""

    ended_gpu_s: float = 0.0  # over all ended intervals, profile runs included
    served: list[tuple[float, float]] = field(default_factory=list)  # ended intervals of training: start, end
    open: dict[str, tuple[float, int]] = field(default_factory=dict)  # key -> start, GPUs

    def begin(self, key: str, start_s: float, gpus: int) -> None:
        """Begin to count an interval."""
        self.open[key] = start_s, gpus

    def end(self, key: str, now: float) -> None:
        """End the open interval of a key; nothing where there is none."""
        if key not in self.open:
            return
        start_s, gpus = self.open.pop(key)
        self.ended_gpu_s += gpus * (now - start_s)
        if key == TRAINING:
            self.served.append((start_s, now))

    def gpu_s(self, now: float) -> float:
        """Return GPU-seconds held so far, of all GPU types together."""
        return self.ended_gpu_s + sum(gpus * (now - start_s) for start_s, gpus in self.open.values())

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
