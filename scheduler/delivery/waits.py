"""Finds jobs that have waited for GPUs for long, and tells of each once in a wait."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.events import EventKind
from ...core.settings import Settings
from ...core.topics import Topic
from ...core.wording import span
from ..jobs.record import JobRecord
from ..store.events import Event
from ..store.store import Store
from .topics import ToldJob, Webhook, wants

LAST = 50  # events of a job in which an earlier word is looked for


class LongWaits:
    """Looks at the jobs of one store, of which somebody wants to be told."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._since: dict[str, float] = {}
        self._told: set[str] = set()

    def found(self, now: float, webhooks: Iterable[Webhook]) -> list[Event]:
        """Return the events of jobs that have waited for long by now and were not told of in this wait."""
        webhooks = tuple(webhooks)
        waiting = {job.id: job for job in self._store.unretired.values() if _waits(job)}
        first = {job_id: _since(job, now) for job_id, job in waiting.items()}
        self._since = {job_id: self._since.get(job_id, since) for job_id, since in first.items()}
        self._told &= waiting.keys()
        events = []
        for job_id, job in waiting.items():
            waited_s = now - self._since[job_id]
            if waited_s < self._settings.webhooks.waiting_s or job_id in self._told:
                continue
            about = ToldJob.of(job.id, job.owner, job.spec)
            if about.notify is None and not any(wants(one, Topic.WAITING, about) for one in webhooks):
                continue
            self._told.add(job_id)
            if not self._was_told(job_id):
                text = f"has waited for GPUs for {span(waited_s)}"
                events.append(Event(EventKind.WAITS, now, job_id, {"text": text}))
        return events

    def _was_told(self, job_id: str) -> bool:
        """Return whether the process before has told of the wait that goes on."""
        for event in reversed(self._store.events(job_id, LAST)):
            if event.kind in (EventKind.RUNNING, EventKind.PAUSE):
                return False
            if event.kind is EventKind.WAITS:
                return True
        return False


def _waits(job: JobRecord) -> bool:
    return job.active and not job.paused and not job.quarantine and not job.occupied and not job.target


def _since(job: JobRecord, now: float) -> float:
    """Return since when a job waits that is seen to do so: one that has trained, since it is seen."""
    return job.state.submitted_s if job.state.started_s is None else now
