"""Removes what is old or too much, beside rounds: rows in small transactions, files without any lock."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ...core.audit import PRUNED, AuditRow
from ...core.events import EventKind
from ...core.settings import Settings
from ..runtime.clock import Clock
from ..store import retention
from ..store.audit import Entry
from ..store.events import Event
from ..store.retention import EndedJob
from ..store.row_pruning import AUDIT, EVENTS, INTERVALS, ROUNDS, Log, RowPruning
from ..store.store import Store
from .file_pruning import JobFolders, packages, remove_packages, remove_torn_packages, total

EVERY_S = 3600.0
MOST_JOBS = 5000  # that one look removes


@dataclass(frozen=True)
class Removed:
    """What goes, or has gone, of one kind: how many, and about how many bytes."""

    kind: str
    count: int
    bytes: int


class Pruning:
    """Retention of one store and its files. One thread at a time may call it.

    Args:
        lock: of the cycle; while it is held no job begins again.
    """

    def __init__(
        self, store: Store, settings: Settings, clock: Clock, lock: AbstractContextManager[object]
    ) -> None:
        self._store, self._settings, self._clock = store, settings, clock
        self._stopped = threading.Event()
        self._rows = RowPruning(store, self._rest)
        self._folders = JobFolders(settings, lock, self._is_over)
        self._looked_s = -math.inf
        self._busy = threading.Lock()

    @property
    def longest_s(self) -> float:
        """Return how long the longest transaction took."""
        return self._rows.longest_s

    def stop(self) -> None:
        """Remove nothing further."""
        self._stopped.set()

    def keep_up(self) -> None:
        """Remove what is due, once an hour."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s >= EVERY_S:
            self._looked_s = now_s
            self.prune()

    def notes(self) -> list[str]:
        """Return sentences for an operator: there are none."""
        return []

    def prune(self, *, dry_run: bool = False) -> list[Removed]:
        """Remove what retention does not keep, or only say what that is. Kinds of which none goes are absent."""
        with self._busy:
            origins = self._origins()
            found = [
                self._jobs(origins | self._awaited() | self._rows.newest(), dry_run),
                *self._files(origins, dry_run),
                self._packages(dry_run),
                self._log(EVENTS, dry_run),
                self._log(INTERVALS, dry_run),
                self._log(ROUNDS, dry_run),
                self._audit(dry_run),
                self._points(dry_run),
                self._profiles(dry_run),
            ]
            gone = [one for one in found if one.count]
            if gone and not dry_run:
                text = "removed " + ", ".join(f"{one.count} {one.kind}" for one in gone)
                told = {"text": text, "bytes": sum(one.bytes for one in gone)}
                self._store.log(Event(EventKind.PRUNED, self._clock.steady_s(), None, told, cause="retention"))
            return gone

    # --- kinds ----------------------------------------------------------------------------------------------

    def _jobs(self, kept: Collection[str], dry_run: bool) -> Removed:
        limits, now = self._settings.retention, self._clock.steady_s()
        total_jobs, after, going = self._rows.ended(), (0.0, 0), list[EndedJob]()
        while oldest := self._rows.oldest(after):
            some = retention.jobs_to_remove(
                oldest, total_jobs, kept, limits.ended_job_days, limits.most_ended_jobs, now
            )
            going += some
            total_jobs -= len(oldest)
            after = (oldest[-1].finished_s, oldest[-1].number)
            if not some or len(going) >= MOST_JOBS:
                break
        size = self._rows.bytes_of([job.id for job in going])
        if dry_run:
            return Removed("ended jobs", len(going), size)
        done = 0
        for job in going:
            if not self._stopped.is_set() and self._folders.remove_all(job.id):
                done += self._rows.remove_job(job)
        return Removed("ended jobs", done, size if done else 0)

    def _files(self, kept: Collection[str], dry_run: bool) -> list[Removed]:
        limits, now = self._settings.retention, self._clock.steady_s()
        if not dry_run:
            self._folders.clean()
        checkpoints, outputs = self._folders.found(self._rows.ends(self._folders.names()))
        kinds = (
            ("checkpoints", checkpoints, limits.checkpoint_days, limits.checkpoint_gib),
            ("outputs", outputs, limits.output_days, limits.output_gib),
        )
        found = []
        for kind, files, days, gib in kinds:
            going = retention.files_to_remove(files, kept, days, gib, now)
            if not dry_run:
                remove = (
                    self._folders.remove_checkpoints if kind == "checkpoints" else self._folders.remove_outputs
                )
                going = [one for one in going if not self._stopped.is_set() and remove(one.job_id)]
                self._tell(kind, [one.job_id for one in going])
            found.append(Removed(f"{kind} of ended jobs", len(going), total(going)))
        return found

    def _packages(self, dry_run: bool) -> Removed:
        folder = self._settings.package_dir
        there = packages(folder, self._clock.wall_s())
        named = self._rows.named_packages([one.name for one in there])
        going = retention.packages_to_remove(there, named, self._settings.retention.package_days)
        if not dry_run:
            remove_packages(folder, [one.name for one in going])
            remove_torn_packages(folder, self._clock.wall_s())
        return Removed("packages", len(going), total(going))

    def _log(self, rows: Log, dry_run: bool) -> Removed:
        limits, now = self._settings.retention, self._clock.steady_s()
        days, most = {
            EVENTS.name: (limits.event_days, limits.most_events),
            INTERVALS.name: (limits.interval_days, limits.most_intervals),
            ROUNDS.name: (limits.round_days, limits.most_rounds),
        }[rows.name]
        last = self._rows.last_old(rows, days, most, now)
        count, size = self._rows.count(rows, last)
        done = count if dry_run or not count else self._rows.remove_old(rows, last)
        return Removed(rows.name, done, size)

    def _audit(self, dry_run: bool) -> Removed:
        """Remove old rows of the audit log, a few more than need be: each time adds a row that tells it."""
        limits, now, last = self._settings.retention, self._clock.wall_s(), 0
        days, most = limits.audit_days, limits.most_audit
        if days is not None and self._rows.last_old(AUDIT, days + 1, None, now):
            last = self._rows.last_old(AUDIT, days, None, now)
        if most is not None and self._rows.last_old(AUDIT, None, most + most // 20, now):
            last = max(last, self._rows.last_old(AUDIT, None, most, now))
        count, size = self._rows.count(AUDIT, last)
        done = count if dry_run or not count else self._rows.remove_audit(last, self._removed)
        return Removed(AUDIT.name, done, size)

    def _removed(self, last: AuditRow) -> Entry:
        """Return what tells that rows up to one were removed."""
        now = self._clock.wall_s()
        return Entry(PRUNED, target="audit", after={"until": last.number, "hash": last.hash}, time_s=now)

    def _points(self, dry_run: bool) -> Removed:
        before_s = retention.cutoff_s(self._settings.retention.metric_days, self._clock.steady_s())
        ids = [] if before_s is None else self._rows.jobs_with_points(before_s)
        done = self._rows.count_points(ids) if dry_run else self._rows.remove_points(ids)
        return Removed("points of metrics", done, 60 * done)

    def _profiles(self, dry_run: bool) -> Removed:
        limits, now = self._settings.retention, self._clock.steady_s()
        keys = self._rows.old_profiles(limits.profile_days, limits.most_profiles, now)
        return Removed("profiles", len(keys) if dry_run else self._rows.remove_profiles(keys), 2000 * len(keys))

    # --- inside ---------------------------------------------------------------------------------------------

    def _origins(self) -> frozenset[str]:
        """Return the jobs from whose checkpoints active ones start."""
        jobs = self._store.unretired.values()
        forked = {job.origin.job_id for job in jobs if job.origin is not None}
        return frozenset(forked | {one.job_id for job in jobs for one in job.trial_sources})

    def _awaited(self) -> frozenset[str]:
        """Return the jobs after whose end active ones start: these look at how they ended."""
        active = [job for job in self._store.unretired.values() if job.active]
        return frozenset(name for job in active if job.spec.after is not None for name in job.spec.after.all)

    def _is_over(self, job_id: str) -> bool:
        job = self._store.find(job_id)
        return job is not None and job.retired and not job.active and job_id not in self._origins()

    def _tell(self, kind: str, job_ids: Collection[str]) -> None:
        now, text = self._clock.steady_s(), f"its {kind} were removed, as it ended long ago or they were too many"
        for job_id in job_ids:
            self._store.log(Event(EventKind.PRUNED, now, job_id, {"text": text}, cause="retention"))

    def _rest(self, took_s: float) -> bool:
        """Leave the store to others for as long as the last transaction took."""
        return not self._stopped.wait(took_s)
