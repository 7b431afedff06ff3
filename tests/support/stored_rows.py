"""Rows of jobs as this version and earlier ones stored them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.store.record_rows import JobFile, JobRows, columns, details, record, report

from tests.support.stores import raw


def rows_of(job: JobRecord) -> JobRows:
    """Return the rows of a job as they are written."""
    following = JobFile.next_of(job)
    return JobRows(
        {"id": job.id, "number": job.number, **columns(job)},
        job.spec.model_dump_json(),
        job.package,
        job.script_key,
        None if following is None else (following.spec.model_dump_json(), following.package, following.script_key),
        details(job),
        report(job),
        None if job.measurements is None else job.measurements.to_rows(),
    )


def read_back(job: JobRecord) -> JobRecord:
    """Return the job as the next service finds it."""
    return record(rows_of(job))


def without_names(rows: JobRows) -> JobRows:
    """Return the rows of the time when slots counted GPUs and did not name them."""
    slots = {name: _all_counted(rows.columns[name]) for name in ("target", "held", "training")}
    told = json.loads(rows.details)
    told["given"] = [(sequence, _counted(slot)) for sequence, slot in told.pop("last_grant")]
    told["profiles"] = [
        {**run, "slot": _counted(run["slot"]) if run["slot"] else None} for run in told["profiles"]
    ]
    return replace(rows, columns={**rows.columns, **slots}, details=json.dumps(told))


def store_earlier(path: Path, job: JobRecord) -> None:
    """Store a job as it was stored when slots counted GPUs and did not name them."""
    rows = without_names(rows_of(job))
    slots = [rows.columns[name] for name in ("target", "held", "training")]
    raw(path, "update jobs set target=:v0, held=:v1, training=:v2 where id=:v3", *slots, job.id)
    raw(path, "update job_details set details=:v0 where job_id=:v1", rows.details, job.id)


def _all_counted(text: str) -> str:
    return json.dumps([_counted(slot) for slot in json.loads(text)])


def _counted(slot: dict[str, Any]) -> dict[str, Any]:
    devices = slot["devices"]
    rest = {name: value for name, value in slot.items() if name not in ("devices", "share")}
    return {**rest, "gpus": len(devices), "index": devices[0] // len(devices)}
