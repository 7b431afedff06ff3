"""Keeps what goes wrong with one job from others: it is logged, and the job is set aside."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ..core.events import EventKind
from ..core.logs import about
from ..core.wording import in_words
from .changes.reactions import Reaction
from .observers.hooks import HookError
from .records import Records
from .runtime.clock import Clock
from .store.events import Event
from .store.failures import StoreError
from .store.store import Store

log = logging.getLogger(__name__)


class Guard:
    """Guards the rounds of one cycle.

    Args:
        lock: that of the cycle.
    """

    def __init__(self, store: Store, records: Records, clock: Clock, lock: threading.RLock) -> None:
        self._store, self._records, self._clock, self._lock = store, records, clock, lock

    @contextmanager
    def guarded(self, job_id: str | None) -> Iterator[None]:
        """Log what goes wrong with one job, or with all of them together; the others go on."""
        try:
            with about(job=job_id):
                yield
        except (HookError, StoreError):
            raise
        except Exception as error:
            if job_id is None:
                self.failed(None, error)
            else:
                self.quarantine(job_id, error)

    def failed(self, job_id: str | None, error: Exception) -> None:
        """Log an error and go on."""
        log.error("%s", in_words(error), extra={"job": job_id})
        log_error(self._store, self._clock, job_id, in_words(error))

    def quarantine(self, job_id: str, error: Exception) -> None:
        """Set a job aside that raises, so that rounds go on for the others. It keeps what it has.

        `requeue` lets it back.
        """
        log.exception("quarantined", extra={"job": job_id})
        with self._lock:
            if (job := self._store.find(job_id)) is None or not job.active or job.quarantine:
                self.failed(job_id, error)
                return
            now, why = self._clock.steady_s(), in_words(error)
            event = Event(EventKind.QUARANTINE, now, job_id, {"text": why})
            self._records.apply(Reaction(replace(job, quarantine=why), (event,), round=True), now)


def log_error(store: Store, clock: Clock, job_id: str | None, text: str) -> None:
    """Write an error into the log of a job, or into that of the cluster."""
    store.log(Event(EventKind.ERROR, clock.steady_s(), job_id, {"text": text}))
