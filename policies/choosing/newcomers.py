"""Predicts jobs that are still to come from those that came lately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..contract.configuration import ConfigurationSet
from ..contract.round import JobView

LATELY_S = 3600.0
# Seconds that are added to the time seen, as a cluster that has just begun has seen too little to expect much.
UNSEEN_S = 600.0
MEMORY = 0.9  # weight of the values of earlier newcomers when one more arrives


@dataclass
class Newcomers:
    """How often jobs come, and what each configuration is worth to one of them."""

    _known: frozenset[str] = frozenset()  # jobs of the last round
    _came_s: list[float] = field(default_factory=list)
    _began_s: float = np.inf
    _values: np.ndarray | None = None  # (configurations,)
    _configurations: ConfigurationSet | None = None

    def note(
        self,
        jobs: Sequence[JobView],
        configurations: ConfigurationSet,
        value_of: Callable[[JobView], np.ndarray],
        now: float,
    ) -> None:
        """Note the jobs that are new. `value_of` returns (configurations,) what each is worth to a job."""
        last, self._configurations = self._configurations, configurations
        if last is None or not (configurations is last or configurations.is_like(last)):
            self._values = None
        self._began_s = min(self._began_s, now)
        self._came_s = [came for came in self._came_s if came > now - LATELY_S]
        for job in jobs:
            # A job that has run was there before this policy was.
            if job.model is None or job.id in self._known or job.largest_gpus:
                continue
            self._came_s.append(now)
            row = value_of(job)
            self._values = row if self._values is None else MEMORY * self._values + (1 - MEMORY) * row
        self._known = frozenset(job.id for job in jobs if job.model is not None)

    def expected(self, now: float, within_s: float, most: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the chances that at least 1, 2, …, `most` jobs come, and the values of configurations to one.

        Arrivals are taken to be Poisson at the rate of the last hour. The result is None if no job came lately.
        """
        if self._values is None or not self._came_s:
            return None
        rate = len(self._came_s) / (min(LATELY_S, now - self._began_s) + UNSEEN_S)
        counts = np.arange(most)
        terms = np.exp(-rate * within_s) * np.cumprod(np.concatenate([[1.0], rate * within_s / (counts[:-1] + 1)]))
        return 1 - np.cumsum(terms), self._values
