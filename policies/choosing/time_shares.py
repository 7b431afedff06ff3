"""Whose turn it is where jobs share time (Sia, section 3.5.6)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ..contract.round import JobView

_RUNS = 3.0  # the weight of a job that has its turn: more than any waiting job's
_SLACK_S = 1e-6


class TimeShares:
    """Gives jobs turns of `window_s` seconds. A job that has had its turn rests for as long.

    What a job was served is taken from the rounds: a job with GPUs had them since the last round.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._last_s: float | None = None  # the round before
        self._served: dict[str, list[tuple[float, float]]] = {}  # from, to
        self._rest_until: dict[str, float] = {}
        self._ran_s: dict[str, float] = {}  # when it last held GPUs

    @property
    def resting(self) -> Collection[str]:
        """Return the jobs that have had their turn."""
        return self._rest_until.keys()

    def factors(self, jobs: Sequence[JobView], now: float) -> np.ndarray:
        """Return (jobs,) the factor of λ in the round at `now`: 1 + w."""
        ids = {job.id for job in jobs}
        rest = {id: until for id, until in self._rest_until.items() if id in ids and until > now}
        ran = {id: when for id, when in self._ran_s.items() if id in ids}
        self._served = {job.id: spans for job in jobs if (spans := self._spans(job, now))}
        served_s = {id: sum(end - begin for begin, end in spans) for id, spans in self._served.items()}
        for job in jobs:
            if job.id not in rest and served_s.get(job.id, 0.0) >= self._window_s - _SLACK_S:
                rest[job.id] = now + self._window_s
            if job.placement is not None:
                ran[job.id] = now
        self._rest_until, self._ran_s, self._last_s = rest, ran, now

        def weight(job: JobView) -> float:
            if job.id in rest:
                return 0.0
            if job.placement is not None:
                return _RUNS
            waited_s = now - ran[job.id] if job.id in ran else job.age_s
            had = served_s.get(job.id, 0.0) / self._window_s
            return 1.0 - had + min(waited_s / (10 * self._window_s), 1.0)

        return 1.0 + np.array([weight(job) for job in jobs])

    def _spans(self, job: JobView, now: float) -> list[tuple[float, float]]:
        """Return when the job had GPUs within the last window."""
        spans = list(self._served.get(job.id, ()))
        if job.placement is not None and self._last_s is not None:
            begin = spans.pop()[0] if spans and spans[-1][1] == self._last_s else self._last_s
            spans.append((begin, now))
        since = now - self._window_s
        return [(max(begin, since), end) for begin, end in spans if end > since]
