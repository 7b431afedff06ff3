"""What one decision changes, until it is written as one transaction. It can be nested, and each level can fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection

from ...estimators.measurements import Measurements
from ..jobs.record import JobRecord
from .audit import Entry
from .events import Event
from .intervals import JobTimes, UsageInterval

Write = Callable[[Connection], None]


@dataclass
class Changes:
    """Changes that are kept together or not at all.

    keys: idempotency keys of new jobs, by their ids.
    intervals: by their numbers.
    known: measurements by owner and fingerprint.
    others: further writes, in their order.
    audit: rows of the audit log beside that of what is asked.
    """

    jobs: dict[str, JobRecord] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    times: dict[str, JobTimes] = field(default_factory=dict)
    intervals: dict[int, UsageInterval] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    known: dict[tuple[str, str], tuple[Measurements, float]] = field(default_factory=dict)
    others: list[Write] = field(default_factory=list)
    audit: list[Entry] = field(default_factory=list)

    def __bool__(self) -> bool:
        rows = self.jobs or self.times or self.intervals or self.events or self.known
        return bool(rows or self.others or self.audit)

    def add(self, later: Changes) -> None:
        """Take in the changes of an inner level."""
        self.jobs |= later.jobs
        self.keys |= later.keys
        self.times |= later.times
        self.intervals |= later.intervals
        self.events += later.events
        self.known |= later.known
        self.others += later.others
        self.audit += later.audit


class Levels:
    """The changes under way, outermost first."""

    def __init__(self) -> None:
        self._levels: list[Changes] = []

    def __bool__(self) -> bool:
        return bool(self._levels)

    @property
    def top(self) -> Changes:
        """Return the innermost changes."""
        return self._levels[-1]

    def begin(self) -> None:
        """Begin a level."""
        self._levels.append(Changes())

    def end(self, *, kept: bool) -> Changes | None:
        """End the innermost level. Return its changes if it was the outermost one and they are kept."""
        ended = self._levels.pop()
        if not kept:
            return None
        if self._levels:
            self._levels[-1].add(ended)
            return None
        return ended

    def job(self, job_id: str) -> JobRecord | None:
        """Return a job as it is changed; None: it is not."""
        return next((one.jobs[job_id] for one in reversed(self._levels) if job_id in one.jobs), None)

    def times(self, job_id: str) -> JobTimes | None:
        """Return a job's times as they are changed; None: they are not."""
        return next((one.times[job_id] for one in reversed(self._levels) if job_id in one.times), None)

    def keyed(self, idempotency_key: str) -> str | None:
        """Return the new job of an idempotency key; None: there is none."""
        found = (id for one in self._levels for id, key in one.keys.items() if key == idempotency_key)
        return next(found, None)

    def jobs(self) -> Mapping[str, JobRecord]:
        """Return all changed jobs."""
        found: dict[str, JobRecord] = {}
        for one in self._levels:
            found |= one.jobs
        return found
