"""Hands out what jobs have written, in parts."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.settings import Settings
from ...executor.files.job_log import sources
from ..files import job_logs, log_places
from ..runtime.clock import Clock
from ..store.store import Store


class LogsDesk:
    """Answers for the logs of jobs."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store, self._settings, self._clock = store, settings, clock

    def logs(self, job_id: str, offset: int = 0, source: str = "rank-0") -> tuple[str, int, bool]:
        """Return a part of a job's output, the next offset, and whether the job has ended and that was all.

        `source` is one of `job_logs.page`.

        Raises: KeyError.
        """
        job = self._store.get(job_id)
        text, following = job_logs.page(self._settings.log_dir(job_id), source, offset)
        done = following == offset and (job.retired or (not job.active and not job.occupied))
        return text, following, done

    def log_place(
        self, job_id: str, source: str, tail: int | None = None, last_s: float | None = None
    ) -> tuple[int, int]:
        """Return the offset at which to begin to read a job's output, and how many lines to leave out from there.

        Args:
            tail: lines to show at most.
            last_s: only what was written in the last seconds.

        Raises: KeyError; ValueError for a negative number.
        """
        if last_s is not None and not last_s >= 0:
            raise ValueError(f"since: {last_s} is no number of seconds; it must be 0 or more")
        since_s = None if last_s is None else self._clock.wall_s() - last_s
        return log_places.begin(self._settings.log_dir(self._store.get(job_id).id), source, tail, since_s)

    def log_sources(self, job_id: str) -> Sequence[str]:
        """Return the names of what has written output: `rank-0`, `profile-a100`, … Raises: KeyError."""
        return tuple(sources(self._settings.log_dir(self._store.get(job_id).id)))
