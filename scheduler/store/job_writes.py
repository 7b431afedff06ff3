"""Finds out which rows of jobs a transaction has to write: only those that differ from what is stored."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from ...estimators.measurements import ON_ALL
from ...estimators.throughput import ThroughputParams
from ..jobs.record import JobRecord
from . import tables
from .record_rows import DETAILS, REPORTED, JobFile, changed_columns, columns, details, differs, report
from .schema import job_details, job_reports
from .unit import Changes


@dataclass
class Files:
    """Numbers of a job's stored files: of the one that counts, of the next one, and of the newest."""

    now: int = 0
    following: int | None = None
    newest: int = 0


@dataclass
class Writing:
    """Rows of jobs that one transaction writes."""

    new: list[dict[str, Any]] = field(default_factory=list)
    changed: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    files: list[dict[str, Any]] = field(default_factory=list)
    details: dict[str, str] = field(default_factory=dict)
    reports: dict[str, str] = field(default_factory=dict)
    measured: list[tuple[str, str, str]] = field(default_factory=list)
    # What is stored once this is written.
    numbers: dict[str, Files] = field(default_factory=dict)
    fits: dict[tuple[str, str], ThroughputParams | None] = field(default_factory=dict)

    def run(self, connection: Connection) -> None:
        """Write the rows."""
        tables.insert_jobs(connection, self.new)
        tables.write_files(connection, self.files)
        tables.change_jobs(connection, self.changed)
        tables.write_texts(connection, job_details, self.details)
        tables.write_texts(connection, job_reports, self.reports)
        tables.write_measurements(connection, self.measured)


class JobWrites:
    """Knows which files of jobs are stored under which number, and which fits are stored."""

    def __init__(self) -> None:
        self._files: dict[str, Files] = {}
        self._fits: dict[str, dict[str, ThroughputParams | None]] = {}

    def know(self, job_id: str, file: int, following: int | None) -> None:
        """Take note of the file numbers of a job that was read."""
        self._files[job_id] = Files(file, following, max(file, following or 0))

    def forget(self, job_id: str) -> None:
        """Drop what is kept of a job that is retired."""
        self._files.pop(job_id, None)
        self._fits.pop(job_id, None)

    def written(self, writing: Writing) -> None:
        """Take note of what is stored now."""
        self._files |= writing.numbers
        for (job_id, gpu_type), fit in writing.fits.items():
            self._fits.setdefault(job_id, {})[gpu_type] = fit

    def prepare(
        self, changes: Changes, before: Mapping[str, JobRecord | None], unreadable: Container[str]
    ) -> Writing:
        """Return what has to be written, given what is stored of each changed job.

        Of jobs that are `unreadable` only columns are written, so that nothing of their other rows is lost.
        """
        writing = Writing()
        for job_id, job in changes.jobs.items():
            known = before[job_id]
            if known is None:
                self._insert(writing, job, changes.keys.get(job_id))
            elif job_id in unreadable:
                changed = changed_columns(replace(known, quarantine=""), replace(job, quarantine=""))
                writing.changed += [(job_id, changed)] if changed else []
            else:
                self._change(writing, known, job)
        return writing

    def _insert(self, writing: Writing, job: JobRecord, key: str | None) -> None:
        writing.new.append(
            {
                **columns(job),
                **_asked(job),
                "id": job.id,
                "number": job.number,
                "idempotency_key": key,
                "name": job.spec.name,
                "file": 0,
            }
        )
        writing.numbers[job.id] = Files()
        writing.files.append(_file_row(job.id, 0, JobFile.of(job)))
        writing.details[job.id], writing.reports[job.id] = details(job), report(job)
        self._measure(writing, None, job)

    def _change(self, writing: Writing, before: JobRecord, job: JobRecord) -> None:
        changed = changed_columns(before, job)
        changed |= self._refile(writing, before, job)
        if changed:
            writing.changed.append((job.id, changed))
        if differs(before, job, DETAILS):
            writing.details[job.id] = details(job)
        if differs(before, job, REPORTED):
            writing.reports[job.id] = report(job)
        self._measure(writing, before, job)

    def _refile(self, writing: Writing, before: JobRecord, job: JobRecord) -> dict[str, Any]:
        """Return the changed columns that say which files count. A file is written when it is new."""
        mine, following = JobFile.of(job), JobFile.next_of(job)
        if mine == JobFile.of(before) and following == JobFile.next_of(before):
            return {}
        known = self._files.get(job.id, Files())
        stored = {known.now: JobFile.of(before)}
        if known.following is not None and (waiting := JobFile.next_of(before)) is not None:
            stored[known.following] = waiting
        numbers = Files(newest=known.newest)

        def number_of(file: JobFile) -> int:
            for number, other in stored.items():
                if other == file:
                    return number
            numbers.newest += 1
            stored[numbers.newest] = file
            writing.files.append(_file_row(job.id, numbers.newest, file))
            return numbers.newest

        numbers.now = number_of(mine)
        numbers.following = None if following is None else number_of(following)
        writing.numbers[job.id] = numbers
        asked = _asked(job) if mine != JobFile.of(before) else {}
        return {"file": numbers.now, "next_file": numbers.following, **asked}

    def _measure(self, writing: Writing, before: JobRecord | None, job: JobRecord) -> None:
        """Find the GPU types of which something new is known, or of which a fit is not stored yet."""
        measured = job.measurements
        known = None if before is None else before.measurements
        if measured is None or measured is known:
            return
        fits = self._fits.get(job.id, {})
        for gpu_type in (ON_ALL, *measured.gpu_types):
            fit = None if gpu_type == ON_ALL else measured.fit_of(gpu_type)
            same = known is not None and measured.same_row(known, gpu_type)
            if not same or (fit is not None and fits.get(gpu_type) is not fit):
                writing.measured.append((job.id, gpu_type, measured.row(gpu_type)))
                writing.fits[job.id, gpu_type] = fit


def _file_row(job_id: str, number: int, file: JobFile) -> dict[str, Any]:
    spec = file.spec.model_dump_json()
    return {
        "job_id": job_id,
        "file": number,
        "spec": spec,
        "package": file.package,
        "script_key": file.script_key,
    }


def _asked(job: JobRecord) -> dict[str, Any]:
    """Return the columns of what a job asks for, by which ended jobs are looked up without their specs."""
    gpus = job.spec.asked_gpus
    cpus = gpus * job.spec.resources.least_cpus_per_gpu
    return {"pool": job.spec.pool or "", "team": job.spec.team or "", "asked_gpus": gpus, "asked_cpus": cpus}
