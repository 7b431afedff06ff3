"""A job's record as rows of the store, and back. Pure.

What is read is tolerant: fields that only a later version knows are kept, and written back as they were.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any

from ...core.deadline_answer import Answer
from ...core.job import JobSpec, JobState, Phase
from ...core.json_numbers import dumps, restored
from ...core.reports import MeasuredAt
from ...core.slot import Slot
from ...core.usage import UsageOn
from ...estimators.curves.curve import MetricCurve
from ...estimators.foretold import Foretold
from ...estimators.measurements import Measurements
from ..jobs.record import (
    ChangedFile,
    DeadlineNews,
    JobRecord,
    LeaveNotice,
    Origin,
    ProfileRun,
    Refusals,
    Stopped,
    TrialSource,
)

STATE = tuple(one.name for one in fields(JobState))  # a column each
PLAIN = ("paused", "retired", "quarantine", "life", "sequence", "profile_sequence", "owner", "array")
SLOTS = {"target": "target", "held": "held", "group": "training"}  # field -> column
# What a report of training changes.
REPORTED = (
    "report",
    "reached",
    "metrics",
    "measured_at",
    "curve",
    "left_out",
    "usage",
    "usage_told",
    "told_idle",
    "refusals",
    "saved_steps",
    "saving_s",
)
# Of the job's files, its measurements and its number.
_APART = ("id", "number", "spec", "package", "script_key", "changed", "measurements", "state", "beyond")
DETAILS = tuple(one.name for one in fields(JobRecord) if one.name not in {*_APART, *PLAIN, *SLOTS, *REPORTED})
_RENAMED = {"claims": "pending_commands", "given": "last_grant"}  # fields of records of earlier versions


@dataclass(frozen=True)
class JobFile:
    """What a user wrote, as stored."""

    spec: JobSpec
    package: str | None
    script_key: str

    @classmethod
    def of(cls, job: JobRecord) -> JobFile:
        """Return what counts for a job now."""
        return cls(job.spec, job.package, job.script_key)

    @classmethod
    def next_of(cls, job: JobRecord) -> JobFile | None:
        """Return what counts from a job's next life on; None: nothing else."""
        changed = job.changed
        return None if changed is None else cls(changed.spec, changed.package, changed.script_key)


# --- written ------------------------------------------------------------------------------------------------


def columns(job: JobRecord) -> dict[str, Any]:
    """Return the columns of a job that change while it lives."""
    state = {name: getattr(job.state, name) for name in STATE} | {"phase": job.phase.value}
    slots = {column: dumps([_slot_row(slot) for slot in getattr(job, name)]) for name, column in SLOTS.items()}
    return state | {name: getattr(job, name) for name in PLAIN} | slots


def changed_columns(before: JobRecord, job: JobRecord) -> dict[str, Any]:
    """Return the columns in which a job differs from what is stored."""
    found: dict[str, Any] = {}
    if job.state is not before.state:
        for name in STATE:
            if getattr(job.state, name) != getattr(before.state, name):
                found[name] = getattr(job.state, name)
        if "phase" in found:
            found["phase"] = job.phase.value
    found |= {name: getattr(job, name) for name in PLAIN if getattr(job, name) != getattr(before, name)}
    for name, column in SLOTS.items():
        now, then = getattr(job, name), getattr(before, name)
        if now is not then and [_amounts(slot) for slot in now] != [_amounts(slot) for slot in then]:
            found[column] = dumps([_slot_row(slot) for slot in now])
    return found


def differs(before: JobRecord, job: JobRecord, names: Iterable[str]) -> bool:
    """Return whether two records differ in any of these fields."""
    return any(
        (now := getattr(job, name)) is not (then := getattr(before, name)) and now != then for name in names
    )


def _told(foretold: Foretold) -> dict[str, Any]:
    """Return a forecast. One that is no sum is written as versions before sums read it."""
    row = dict(vars(foretold))
    return row if row["sum"] else {name: value for name, value in row.items() if name != "sum"}


def details(job: JobRecord) -> str:
    """Return all that stands in no other row."""
    row = {name: getattr(job, name) for name in DETAILS}
    row["origin"] = None if job.origin is None else vars(job.origin)
    row["trial_sources"] = [vars(one) for one in job.trial_sources]
    row["foretold"] = None if job.foretold is None else _told(job.foretold)
    row["notice"] = None if job.notice is None else vars(job.notice)
    row["last_grant"] = [(sequence, _slot_row(slot)) for sequence, slot in job.last_grant]
    row["profiles"] = [
        {**vars(run), "slot": None if run.slot is None else _slot_row(run.slot)} for run in job.profiles
    ]
    return dumps({**job.beyond, **row})


def report(job: JobRecord) -> str:
    """Return what the newest report said."""
    row = {name: getattr(job, name) for name in REPORTED}
    row["measured_at"] = {name: (at.epoch, at.samples) for name, at in job.measured_at.items()}
    row["curve"] = job.curve.to_row()
    row["usage"] = {gpu_type: use.to_row() for gpu_type, use in job.usage.items()}
    row["refusals"] = vars(job.refusals)
    return dumps(row)


# --- read ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JobRows:
    """All rows of one job as they stand in the store."""

    columns: Mapping[str, Any]
    spec: str
    package: str | None
    script_key: str
    next_file: tuple[str, str | None, str] | None = None  # spec, package, script_key
    details: str = "{}"
    report: str = "{}"
    measured: Mapping[str, str] | None = None


def record(rows: JobRows) -> JobRecord:
    """Return the job of these rows. Raises: ValueError, KeyError, TypeError or AttributeError for any others."""
    row = rows.columns
    told = {_RENAMED.get(name, name): value for name, value in json.loads(rows.details).items()}
    claimed_s = told.pop("claimed_s", None)  # of earlier versions, which knew of one command at a time
    pending = told.pop("pending_commands", []) if claimed_s is None else [[row["sequence"], claimed_s]]
    target = read_slots(row["target"])
    granted = (
        [(sequence, _slot(slot)) for sequence, slot in told.pop("last_grant")]
        if "last_grant" in told
        else ([(row["sequence"], slot) for slot in target])
    )
    known = {name: told.pop(name) for name in DETAILS if name in told}
    slots = {name: read_slots(row[column]) for name, column in SLOTS.items()}
    values: dict[str, Any] = {**{name: row[name] for name in PLAIN}, **slots, **_reported(json.loads(rows.report))}
    return JobRecord(
        id=row["id"],
        number=row["number"],
        spec=read_spec(rows.spec),
        package=rows.package,
        script_key=rows.script_key,
        changed=None if rows.next_file is None else _changed(*rows.next_file),
        state=JobState(**{name: row[name] for name in STATE} | {"phase": Phase(row["phase"])}),
        measurements=Measurements.from_rows(rows.measured) if rows.measured else None,
        beyond=told,
        **values
        | known
        | {
            "profiles": tuple(_profile_run(run) for run in known.get("profiles", ())),
            "machines": tuple(known.get("machines", ())),
            "cores": {node: tuple(of) for node, of in known.get("cores", {}).items()},
            "pending_commands": tuple((sequence, at) for sequence, at in pending),
            "last_grant": tuple(granted),
            "origin": Origin(**known["origin"]) if known.get("origin") else None,
            "trial_sources": tuple(TrialSource(**one) for one in known.get("trial_sources", ())),
            "foretold": Foretold(**known["foretold"]) if known.get("foretold") else None,
            "notice": LeaveNotice(**known["notice"]) if known.get("notice") else None,
            "told_deadline": DeadlineNews(known.get("told_deadline", "")),
            "answer": Answer(known["answer"]) if known.get("answer") else None,
            "stopped": Stopped(known["stopped"]) if known.get("stopped") else None,
        },
    )


def stand_in(rows: JobRows, why: str) -> JobRecord:
    """Return what can be told of a job whose rows cannot be read. It keeps what it has.

    Args:
        why: one sentence.
    """
    row = rows.columns
    slots = {name: _slots_or_none(row[column]) for name, column in SLOTS.items()}
    holds = bool(slots["held"] or slots["target"])
    try:
        phase = Phase(row["phase"])
    except ValueError:
        phase = Phase.RUNNING if holds else Phase.QUEUED
    values: dict[str, Any] = {**{name: row[name] for name in PLAIN}, **slots}
    return JobRecord(
        id=row["id"],
        number=row["number"],
        spec=_spec_or_none(rows.spec, row["id"]),
        package=rows.package,
        script_key=rows.script_key,
        state=JobState(**{name: row[name] for name in STATE} | {"phase": phase}),
        **values | {"quarantine": why},
    )


def _slots_or_none(text: str) -> tuple[Slot, ...]:
    try:
        return read_slots(text)
    except (ValueError, KeyError, TypeError):
        return ()


def _spec_or_none(text: str, job_id: str) -> JobSpec:
    try:
        return read_spec(text)
    except ValueError:
        name = "".join(c for c in job_id.rpartition("-")[0] if c.isalnum() or c in "_.-")[:63]
        return JobSpec(name=f"job{name}" if not name[:1].isalnum() else name, script="unknown.py")


@lru_cache(maxsize=512)  # pages of ended jobs are read again and again
def read_spec(text: str) -> JobSpec:
    """Return a stored spec; fields of a later version do not count. Raises: ValueError."""
    return JobSpec.model_validate_json(text, extra="ignore")


def read_slots(text: str) -> tuple[Slot, ...]:
    """Return stored slots. Raises: ValueError, KeyError or TypeError."""
    return tuple(_slot(slot) for slot in json.loads(text))


def _changed(spec: str, package: str | None, script_key: str) -> ChangedFile:
    return ChangedFile(read_spec(spec), package, script_key)


def _reported(row: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: row[name] for name in REPORTED if name in row}
    return known | {
        "reached": tuple((at, fraction) for at, fraction in row.get("reached", ())),
        "report": restored(row.get("report", {})),
        "metrics": restored(row.get("metrics", {})),
        "measured_at": {name: MeasuredAt(*at) for name, at in row.get("measured_at", {}).items()},
        "curve": MetricCurve.from_row(row.get("curve", {})),
        "usage": {gpu_type: UsageOn.from_row(use) for gpu_type, use in row.get("usage", {}).items()},
        "usage_told": tuple(row.get("usage_told", ("", 0))),
        "refusals": _refusals(row.get("refusals", {})),
    }


def _refusals(row: Mapping[str, Any]) -> Refusals:
    return Refusals(**{**row, "told": tuple(row.get("told", ("", 0)))})


def _profile_run(row: Mapping[str, Any]) -> ProfileRun:
    # Earlier versions kept slots of runs long over.
    holds = row["slot"] and (row["ok"] is None or row.get("ended_s") is not None)
    return ProfileRun(**{**row, "slot": _slot(row["slot"]) if holds else None})


def _amounts(slot: Slot) -> tuple[object, ...]:
    return slot, slot.cpus, slot.memory_gib, slot.share


def _slot_row(slot: Slot) -> dict[str, Any]:
    return _row(slot, slot.cpus, slot.memory_gib, slot.share)


@lru_cache(maxsize=65_536)
def _row(slot: Slot, *amounts: float) -> dict[str, Any]:
    """Return the slot as JSON's own types. It is cached, as records are written more often than slots change.

    Args:
        amounts: those of the slot, as equal slots may have different ones.
    """
    return asdict(slot)


def _slot(row: Mapping[str, Any]) -> Slot:
    """Return the slot of a row. Rows of earlier versions name no GPUs: these get numbers below 0 for now."""
    known = {name: row[name] for name in _SLOT if name in row}
    if "devices" in row:
        return Slot(**{**known, "devices": tuple(row["devices"])})
    first = row["gpus"] * row.get("index", 0)
    return Slot(**{**known, "devices": tuple(-1 - first - at for at in range(row["gpus"]))})


_SLOT = tuple(one.name for one in fields(Slot))
