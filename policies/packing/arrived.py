"""What arrived of late, as the rounds of a policy show it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .models import SLOT_S, Arrivals

KEPT_SLOTS = 6


@dataclass
class Arrived:
    """Jobs that were submitted in the last hour. Jobs that came and ended between two rounds are not seen."""

    _jobs: deque[tuple[float, int]] = field(default_factory=deque)  # (time, GPUs)
    _newest: tuple[float, str] = (-np.inf, "")

    def note(self, ids: Sequence[str], submitted_s: np.ndarray, gpus: np.ndarray, now: float) -> None:
        """Note the jobs of a round, which are in order of submission."""
        newest, came = self._newest, list[tuple[float, int]]()
        for i in range(len(ids) - 1, -1, -1):
            at = (float(submitted_s[i]), ids[i])
            if at[0] < self._newest[0] or at == self._newest:
                break
            newest = max(newest, at)
            came.append((at[0], int(gpus[i])))
        self._jobs.extend(reversed(came))
        self._newest = newest
        while self._jobs and self._jobs[0][0] < now - KEPT_SLOTS * SLOT_S:
            self._jobs.popleft()

    def of_slot(self, now: float) -> int:
        """Return how many jobs came in the last slot."""
        count = 0
        for at, _ in reversed(self._jobs):
            if at <= now - SLOT_S:
                break
            count += 1
        return count

    @property
    def mean(self) -> Arrivals:
        """Return what came in a slot of the last hour, in the mean: the forecast where there is no model."""
        return Arrivals(len(self._jobs) / KEPT_SLOTS, sum(gpus for _, gpus in self._jobs) / KEPT_SLOTS)
