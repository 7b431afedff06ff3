"""Specs, states, measurements and reports stand in rows of their own; events have causes, profiles have owners.

There are users with their tokens.

Records that cannot be read become rows all the same, so that the service sets the job aside and tells why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0002", "0001", None, None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_CHUNK = 500
_ZERO, _FALSE = sa.text("0"), sa.text("false")
_COUNTS = ("restarts", "resizes", "failures", "recoveries", "evictions")
_STATE = ("reason", "submitted_s", "queued_s", "started_s", "finished_s", *_COUNTS)
_SLOTS = {"target": "target", "held": "held", "group": "training"}
_REPORTED = (
    "report",
    "reached",
    "metrics",
    "measured_at",
    "left_out",
    "usage",
    "usage_told",
    "told_idle",
    "refusals",
)
# Fields of a record of the first version, beside its state, its slots and what a report changes.
_DETAILS = (
    "pending_since_s",
    "profiles",
    "fingerprint",
    "largest_gpus",
    "pauses",
    "lost_s",
    "pending_commands",
    "last_grant",
    "starts",
    "starting_s",
    "moves",
    "moving_s",
    "generation",
    "traceback",
    "stopped",
    "retrying",
    "faults",
    "ended_early",
    "machines",
    "renews",
    "asked",
    "origin",
    "foretold",
)
_COLUMNS = ("owner", "paused", "retired", "life", "sequence", "profile_sequence")


def _job_id() -> sa.Column[Any]:
    return sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id", ondelete="cascade"), nullable=False)


# --- up -----------------------------------------------------------------------------------------------------


def upgrade() -> None:
    """Take records apart."""
    op.rename_table("jobs", "earlier_jobs")
    _create_tables()
    connection = op.get_bind()
    earlier = _table("earlier_jobs", "id", "number", "idempotency_key", "phase", "record", "measurements")
    for rows in _chunks(connection, earlier, earlier.c.number):
        made = [_taken_apart(row) for row in rows]
        for name in ("jobs", "job_files", "job_details", "job_reports", "measurements"):
            if found := [row for one in made for row in one[name]]:
                connection.execute(sa.insert(_table(name, *found[0])), found)
    op.drop_table("earlier_jobs")
    for column in ("cause", "who"):
        op.add_column("events", sa.Column(column, sa.Text, nullable=False, server_default=""))
    op.create_index("intervals_ended", "intervals", ["end_s"])
    op.rename_table("profiles", "earlier_profiles")
    op.create_table(
        "profiles",
        sa.Column("owner", sa.Text, nullable=False, server_default=""),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("time_s", sa.Double, nullable=False),
        sa.Column("measurements", sa.Text, nullable=False),
        sa.UniqueConstraint("owner", "fingerprint"),
    )
    op.execute(
        "insert into profiles(fingerprint, time_s, measurements) "
        "select fingerprint, time_s, measurements from earlier_profiles"
    )
    op.drop_table("earlier_profiles")
    op.execute("delete from meta where key='version'")
    op.create_table(
        "users",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("created_s", sa.Double, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False, server_default=""),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.Column("expires_s", sa.Double),
        sa.Column("revoked_s", sa.Double),
        sa.Column("used_s", sa.Double),
    )
    op.create_index("tokens_of_user", "tokens", ["user"])


def _create_tables() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("number", _NUMBER, nullable=False, unique=True),
        sa.Column("idempotency_key", sa.Text, unique=True),
        sa.Column("name", sa.Text, nullable=False, server_default=""),
        sa.Column("owner", sa.Text, nullable=False, server_default=""),
        sa.Column("pool", sa.Text, nullable=False, server_default=""),
        sa.Column("asked_gpus", sa.Integer, nullable=False, server_default=sa.text("1")),
        sa.Column("asked_cpus", sa.Double, nullable=False, server_default=_ZERO),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False, server_default=""),
        sa.Column("submitted_s", sa.Double, nullable=False, server_default=_ZERO),
        sa.Column("queued_s", sa.Double),
        sa.Column("started_s", sa.Double),
        sa.Column("finished_s", sa.Double),
        *(sa.Column(name, sa.Integer, nullable=False, server_default=_ZERO) for name in _COUNTS),
        sa.Column("paused", sa.Boolean, nullable=False, server_default=_FALSE),
        sa.Column("retired", sa.Boolean, nullable=False, server_default=_FALSE),
        sa.Column("quarantine", sa.Text, nullable=False, server_default=""),
        sa.Column("life", sa.Integer, nullable=False, server_default=_ZERO),
        sa.Column("file", sa.Integer, nullable=False, server_default=_ZERO),
        sa.Column("next_file", sa.Integer),
        sa.Column("sequence", sa.Integer, nullable=False, server_default=_ZERO),
        sa.Column("profile_sequence", sa.Integer, nullable=False, server_default=_ZERO),
        *(sa.Column(name, sa.Text, nullable=False, server_default="[]") for name in _SLOTS.values()),
    )
    living = sa.text("not retired")
    op.create_index("jobs_unretired", "jobs", ["number"], sqlite_where=living, postgresql_where=living)
    op.create_index("jobs_of_owner", "jobs", ["owner", "number"])
    op.create_index("jobs_finished", "jobs", ["finished_s"])
    op.create_table(
        "job_files",
        _job_id(),
        sa.Column("file", sa.Integer, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("package", sa.Text),
        sa.Column("script_key", sa.Text, nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("job_id", "file"),
    )
    op.create_index("job_files_of_package", "job_files", ["package"])
    op.create_table(
        "job_details",
        _job_id(),
        sa.Column("details", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_table(
        "job_reports", _job_id(), sa.Column("report", sa.Text, nullable=False), sa.PrimaryKeyConstraint("job_id")
    )
    op.create_table(
        "measurements",
        _job_id(),
        sa.Column("gpu_type", sa.Text, nullable=False),
        sa.Column("measured", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "gpu_type"),
    )


def _taken_apart(row: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a record, by table."""
    record = _object(row.record)
    state, spec, changed = record.pop("state", {}), record.pop("spec", None), record.pop("changed", None)
    resources = spec.get("resources", {}) if isinstance(spec, dict) else {}
    gpus = resources.get("gpus") or resources.get("min_gpus") or 1
    of_job = {
        "id": row.id,
        "number": row.number,
        "idempotency_key": row.idempotency_key,
        "name": spec.get("name", "") if isinstance(spec, dict) else row.id.rpartition("-")[0],
        "owner": "",
        "pool": (spec.get("pool") or "") if isinstance(spec, dict) else "",
        "asked_gpus": gpus,
        "asked_cpus": gpus * (resources.get("cpus_per_gpu") or 0.0),
        "phase": row.phase,
        **{name: state.get(name) for name in ("queued_s", "started_s", "finished_s")},
        **{name: state.get(name, 0) for name in ("submitted_s", *_COUNTS)},
        "reason": state.get("reason", ""),
        **dict.fromkeys(("paused", "retired"), False),
        **dict.fromkeys(("life", "sequence", "profile_sequence", "file"), 0),
        **{name: record.pop(name) for name in _COLUMNS if name in record},
        "next_file": 1 if changed else None,
        **{column: json.dumps(record.pop(name, [])) for name, column in _SLOTS.items()},
    }
    of_job["retired"] |= spec is None and row.phase in ("succeeded", "failed", "cancelled")
    files = [_file(row.id, 0, spec, record.pop("package", None), record.pop("script_key", ""))]
    if changed:
        files.append(_file(row.id, 1, changed["spec"], changed.get("package"), changed.get("script_key", "")))
    reported = {name: record.pop(name) for name in _REPORTED if name in record}
    for name in ("id", "number"):
        record.pop(name, None)
    measured = _by_gpu_type(row.measurements)
    return {
        "jobs": [of_job],
        "job_files": files,
        "job_details": [{"job_id": row.id, "details": json.dumps(record) if spec is not None else row.record}],
        "job_reports": [{"job_id": row.id, "report": json.dumps(reported)}],
        "measurements": [
            {"job_id": row.id, "gpu_type": t, "measured": json.dumps(one)} for t, one in measured.items()
        ],
    }


def _object(text: str) -> dict[str, Any]:
    """Return the object of a JSON text; of a torn one an empty object."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _file(job_id: str, number: int, spec: object, package: str | None, script_key: str) -> dict[str, Any]:
    text = "" if spec is None else json.dumps(spec)
    return {"job_id": job_id, "file": number, "spec": text, "package": package, "script_key": script_key}


_PARTS = {
    "profile": "profiles",
    "largest_local_bsz": "largest_local_bsz",
    "out_of_memory": "out_of_memory",
    "fit": "fits",
}
_ON_ALL = ("grad_sqr", "grad_var", "info")


def _by_gpu_type(text: str) -> dict[str, dict[str, Any]]:
    """Return measurements by GPU type, and under the empty one what is so on all."""
    if not (data := _object(text)):
        return {}
    parts = {part: data.get(name) or {} for part, name in _PARTS.items()}
    gpu_types = dict.fromkeys(gpu_type for of in parts.values() for gpu_type in of)
    rows = {t: {part: of[t] for part, of in parts.items() if t in of} for t in gpu_types}
    return {"": {name: data.get(name) for name in _ON_ALL}, **rows}


# --- down ---------------------------------------------------------------------------------------------------


def downgrade() -> None:
    """Put records together. What the first version does not know is left out."""
    connection = op.get_bind()
    op.drop_table("tokens")
    op.drop_table("users")
    op.drop_index("jobs_unretired", "jobs")
    op.drop_index("jobs_of_owner", "jobs")
    op.drop_index("jobs_finished", "jobs")
    op.rename_table("jobs", "later_jobs")
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False, unique=True),
        sa.Column("idempotency_key", sa.Text, unique=True),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("measurements", sa.Text, nullable=False, server_default=""),
    )
    names = ["id", "number", "idempotency_key", "phase", *_COLUMNS, *_STATE, "file", "next_file", *_SLOTS.values()]
    later = _table("later_jobs", *names)
    jobs = _table("jobs", "id", "number", "idempotency_key", "phase", "record", "measurements")
    for rows in _chunks(connection, later, later.c.number):
        connection.execute(sa.insert(jobs), list(_put_together(connection, rows)))
    for name in ("job_files", "job_details", "job_reports", "measurements"):
        op.drop_table(name)
    op.drop_table("later_jobs")
    op.drop_index("intervals_ended", "intervals")
    for column in ("cause", "who"):
        op.drop_column("events", column)
    op.rename_table("profiles", "later_profiles")
    op.create_table(
        "profiles",
        sa.Column("fingerprint", sa.Text, primary_key=True),
        sa.Column("time_s", sa.Double, nullable=False),
        sa.Column("measurements", sa.Text, nullable=False),
    )
    _keep_profiles(connection)
    op.drop_table("later_profiles")
    op.execute("delete from meta")
    op.execute("insert into meta values('version', '1')")


def _put_together(connection: sa.Connection, rows: Iterable[Any]) -> Iterator[dict[str, Any]]:
    rows = list(rows)
    ids = [row.id for row in rows]
    files = {(one.job_id, one.file): one for one in _of(connection, ids, "job_files", *_FILE)}
    details = {one.job_id: one.details for one in _of(connection, ids, "job_details", "details")}
    reports = {one.job_id: one.report for one in _of(connection, ids, "job_reports", "report")}
    measured: dict[str, dict[str, dict[str, Any]]] = {}
    for one in _of(connection, ids, "measurements", "gpu_type", "measured"):
        measured.setdefault(one.job_id, {})[one.gpu_type] = _object(one.measured)
    for row in rows:
        file, following = files.get((row.id, row.file)), files.get((row.id, row.next_file))
        if file is None or not file.spec:  # it was torn before it came here
            yield {**_keys(row), "record": details.get(row.id, ""), "measurements": ""}
            continue
        told = {**_object(details.get(row.id, "")), **_object(reports.get(row.id, ""))}
        record = {
            **{name: told[name] for name in (*_DETAILS, *_REPORTED) if name in told},
            "id": row.id,
            "number": row.number,
            "spec": _object(file.spec),
            "package": file.package,
            "script_key": file.script_key,
            "state": {"phase": row.phase, **{name: getattr(row, name) for name in _STATE}},
            **{name: getattr(row, name) for name in _COLUMNS},
            "paused": bool(row.paused),
            "retired": bool(row.retired),
            **{name: json.loads(getattr(row, column)) for name, column in _SLOTS.items()},
            "changed": None if following is None else _changed(following),
        }
        yield {**_keys(row), "record": json.dumps(record), "measurements": _as_one(measured.get(row.id, {}))}


def _keys(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("id", "number", "idempotency_key", "phase")}


_FILE = ("file", "spec", "package", "script_key")


def _changed(file: Any) -> dict[str, Any]:
    return {"spec": _object(file.spec), "package": file.package, "script_key": file.script_key}


def _as_one(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return measurements as the one text of the first version."""
    if not rows:
        return ""
    of_types = {gpu_type: row for gpu_type, row in rows.items() if gpu_type}
    one: dict[str, Any] = {
        name: {gpu_type: row[part] for gpu_type, row in of_types.items() if part in row}
        for part, name in _PARTS.items()
    }
    return json.dumps({**one, **{name: rows.get("", {}).get(name) for name in _ON_ALL}})


def _keep_profiles(connection: sa.Connection) -> None:
    """Keep the newest measurements of each fingerprint, whose owner is told no more."""
    later = _table("later_profiles", "fingerprint", "time_s", "measurements")
    kept: dict[str, dict[str, Any]] = {}
    for row in connection.execute(sa.select(later).order_by(later.c.time_s)):
        data = _object(row.measurements)
        text = row.measurements if "profiles" in data else _as_one(data)
        kept[row.fingerprint] = {
            "fingerprint": row.fingerprint,
            "time_s": row.time_s,
            "measurements": text,
        }
    if kept:
        table = _table("profiles", "fingerprint", "time_s", "measurements")
        connection.execute(sa.insert(table), list(kept.values()))


# --- both ---------------------------------------------------------------------------------------------------


def _table(name: str, *columns: str) -> Any:
    return sa.table(name, *(sa.column(column) for column in columns))


def _chunks(connection: sa.Connection, table: Any, key: Any) -> Iterator[Iterable[Any]]:
    last = -1
    while rows := connection.execute(sa.select(table).where(key > last).order_by(key).limit(_CHUNK)).all():
        yield rows
        last = rows[-1].number


def _of(connection: sa.Connection, ids: list[str], name: str, *columns: str) -> Any:
    table = _table(name, "job_id", *columns)
    return connection.execute(sa.select(table).where(table.c.job_id.in_(ids)))
