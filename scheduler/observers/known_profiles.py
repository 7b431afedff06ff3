"""The profile cache: measurements of a user's earlier jobs of the same model, script or fingerprint."""

from __future__ import annotations

from dataclasses import replace

from ...estimators.measurements import Measurements
from ..changes import profile_reuse
from ..jobs.record import JobRecord
from ..store.store import Store
from .hooks import Change, CycleHook

MOST_KEPT = 1024  # entries in memory; the store has all


class KnownProfiles(CycleHook):
    """Looks up and keeps measurements by fingerprint. `version` rises when other jobs may need fewer runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[tuple[str, str], Measurements | None] = {}  # by user and key
        self.version = 0

    def changed(self, change: Change) -> None:
        """Keep new measurements for the next job that trains the same model."""
        job, measured, before = change.after, change.after.measurements, change.before.measurements
        if measured is None or measured is before:
            return
        for_script, for_model = measured.of_another_run(same_script=True), measured.of_another_run()
        if before is not None and for_script == before.of_another_run(same_script=True):
            return  # most reports bring nothing that another job takes over
        keys = {job.spec.fingerprint, profile_reuse.fingerprint(measured), job.script_key} - {None, ""}
        entries: dict[str, Measurements] = {}
        for key in sorted(str(key) for key in keys):
            known, new = self._look_up(job.owner, key), for_script if key == job.script_key else for_model
            entry = new if known is None else new.completed_by(known)
            if entry == known:
                continue
            entries[key] = entry
            grew = profile_reuse.measured_types(entry) - profile_reuse.measured_types(known)
            self.version += bool(grew)
        if entries:
            self._store.remember(entries, change.now, job.owner)
        for key, kept in entries.items():
            self._keep((job.owner, key), kept)

    def with_known(self, job: JobRecord) -> JobRecord:
        """Return the job with measurements of jobs with its fingerprint, or with the same files and arguments.

        They are of the same user: nobody else's jobs decide how a job is placed. What a script asks for is taken
        only from jobs with the same files and arguments.
        """
        script = self._look_up(job.owner, job.script_key) if job.script_key else None
        for key in (job.spec.fingerprint, job.fingerprint, job.script_key):
            known = self._look_up(job.owner, key) if key else None
            if known is not None:
                job = replace(job, measurements=profile_reuse.merged(job.measurements, known, script))
                break
        return job

    def _look_up(self, owner: str, key: str) -> Measurements | None:
        if (owner, key) not in self._kept:
            self._keep((owner, key), self._store.recall(key, owner))
        return self._kept[owner, key]

    def _keep(self, key: tuple[str, str], measured: Measurements | None) -> None:
        self._kept.pop(key, None)
        self._kept[key] = measured
        while len(self._kept) > MOST_KEPT:
            self._kept.pop(next(iter(self._kept)))
