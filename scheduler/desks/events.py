"""Tells what has happened, to jobs and to the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.identity import Reader
from ..access.others_jobs import OthersJobs, told_of_cluster
from ..store.store import Store
from ..views.event_views import numbered_event
from .moments import Moments


class EventsDesk:
    """Answers for the log of events."""

    def __init__(self, store: Store, moments: Moments) -> None:
        self._store, self._moments, self._others = store, moments, OthersJobs(store)

    def events_after(self, number: int, most: int) -> Sequence[dict[str, Any]]:
        """Return the first events after one with a number, oldest first.

        One of the cluster has a `shared_text`, too: what all may read of it.
        """
        found = [numbered_event(event) for event in self._store.events_after(number, most)]
        for event in found:
            if event["job_id"] is None:
                event["shared_text"] = told_of_cluster(event, self._others, None)["text"]
        return self._moments.shown(found)

    def job_events(self, job_id: str, last: int = 200) -> Sequence[dict[str, Any]]:
        """Return the newest events of a job, oldest first. Raises: KeyError."""
        found = self._store.events(self._store.get(job_id).id, last)
        return self._moments.shown([numbered_event(event) for event in found])

    def newest_events(
        self, last: int, job_id: str | None, kinds: Sequence[str], since_s: float | None, reader: Reader | None
    ) -> Sequence[dict[str, Any]]:
        """Return the newest events that fit, oldest first.

        Args:
            since_s: seconds since 1970.
            reader: only of jobs that this user may read, and of the cluster; None: of all.
        """
        chosen = self._store.newest_events(last, job_id, kinds, self._moments.steady_s(since_s), reader)
        found = [numbered_event(event) for event in chosen]
        if reader is not None:
            found = [
                told_of_cluster(event, self._others, reader) if event["job_id"] is None else event
                for event in found
            ]
        return self._moments.shown(found)

    def last_event(self) -> int:
        """Return the number of the newest event."""
        return self._store.last_event
