"""The tables of the store, for SQLite and PostgreSQL alike.

What changes often stands apart from what is large: a spec is written once, and a report rewrites neither it nor
the job's state. Columns that a later version added are left as they are.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()
# SQLite counts rows up by itself only in a column of type INTEGER, which has 64 bits there.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")


def _key() -> Column[str]:
    return Column("job_id", Text, ForeignKey("jobs.id", ondelete="cascade"), nullable=False)


# One row of facts for the whole store: the epoch of its writer, and who that is.
meta = Table("meta", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

jobs = Table(
    "jobs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("number", _NUMBER, nullable=False, unique=True),
    Column("idempotency_key", Text, unique=True),
    Column("name", Text, nullable=False, server_default=""),
    Column("owner", Text, nullable=False, server_default=""),
    Column("pool", Text, nullable=False, server_default=""),
    Column("team", Text, nullable=False, server_default=""),  # whose share it uses; "": it was of none
    Column("array", Text, nullable=False, server_default=""),  # the id of its array; "": it is of none
    Column("asked_gpus", Integer, nullable=False, server_default=text("1")),
    Column("asked_cpus", Double, nullable=False, server_default=text("0")),
    Column("phase", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    Column("submitted_s", Double, nullable=False, server_default=text("0")),
    Column("queued_s", Double),
    Column("started_s", Double),
    Column("finished_s", Double),
    Column("restarts", Integer, nullable=False, server_default=text("0")),
    Column("resizes", Integer, nullable=False, server_default=text("0")),
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("recoveries", Integer, nullable=False, server_default=text("0")),
    Column("evictions", Integer, nullable=False, server_default=text("0")),
    Column("paused", Boolean, nullable=False, server_default=text("false")),
    Column("retired", Boolean, nullable=False, server_default=text("false")),
    Column("quarantine", Text, nullable=False, server_default=""),  # why it takes part in no round
    Column("life", Integer, nullable=False, server_default=text("0")),
    Column("file", Integer, nullable=False, server_default=text("0")),  # of `job_files`, which counts now
    Column("next_file", Integer),  # which counts from its next life on
    Column("sequence", Integer, nullable=False, server_default=text("0")),
    Column("profile_sequence", Integer, nullable=False, server_default=text("0")),
    # JSON lists of slots.
    Column("target", Text, nullable=False, server_default="[]"),
    Column("held", Text, nullable=False, server_default="[]"),
    Column("training", Text, nullable=False, server_default="[]"),
    Index("jobs_unretired", "number", sqlite_where=text("not retired"), postgresql_where=text("not retired")),
    Index("jobs_of_owner", "owner", "number"),
    Index("jobs_of_team", "team", "number"),
    Index("jobs_of_array", "array", "number"),
    Index("jobs_finished", "finished_s"),
)

# What a user wrote; a changed job file is one more row.
job_files = Table(
    "job_files",
    metadata,
    _key(),
    Column("file", Integer, nullable=False),
    Column("spec", Text, nullable=False),
    Column("package", Text),
    Column("script_key", Text, nullable=False, server_default=""),
    PrimaryKeyConstraint("job_id", "file"),
    Index("job_files_of_package", "package"),
)

# JSON of all else that is known of a job and changes now and then.
job_details = Table("job_details", metadata, _key(), Column("details", Text, nullable=False))
job_details.append_constraint(PrimaryKeyConstraint("job_id"))

# JSON of what its newest report said.
job_reports = Table("job_reports", metadata, _key(), Column("report", Text, nullable=False))
job_reports.append_constraint(PrimaryKeyConstraint("job_id"))

# What was measured of a job on a GPU type; the row without one holds what is so on all of them.
measurements = Table(
    "measurements",
    metadata,
    _key(),
    Column("gpu_type", Text, nullable=False),
    Column("measured", Text, nullable=False),
    PrimaryKeyConstraint("job_id", "gpu_type"),
)

# What scripts reported, thinned: `number` counts the reports of a metric, and a value that was not finite is null.
metric_points = Table(
    "metric_points",
    metadata,
    _key(),
    Column("metric", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("at_s", Double, nullable=False),
    Column("epoch", Integer),
    Column("samples", BigInteger),
    Column("value", Double),
    PrimaryKeyConstraint("job_id", "metric", "number"),
)

events = Table(
    "events",
    metadata,
    Column("id", _NUMBER, primary_key=True, autoincrement=True),
    Column("time_s", Double, nullable=False),
    Column("job_id", Text),
    Column("kind", Text, nullable=False),
    Column("cause", Text, nullable=False, server_default=""),
    Column("who", Text, nullable=False, server_default=""),
    Column("data", Text, nullable=False),
    Index("events_of_job", "job_id", "id"),
    Index(
        "events_of_cluster",
        "id",
        sqlite_where=text("job_id is null and kind<>'plan'"),
        postgresql_where=text("job_id is null and kind<>'plan'"),
    ),
    sqlite_autoincrement=True,
)

intervals = Table(
    "intervals",
    metadata,
    Column("id", _NUMBER, primary_key=True, autoincrement=True),
    Column("job_id", Text, nullable=False),
    Column("start_s", Double, nullable=False),
    Column("end_s", Double),
    Column("gpu_type", Text, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("batch_size", Integer),
    Column("lr", Double),
    Column("phase", Text, nullable=False),
    Column("share", Double, nullable=False, server_default="1"),
    Index("intervals_of_job", "job_id", "id"),
    Index("intervals_ended", "end_s"),
    sqlite_autoincrement=True,
)

# GPU-seconds by day (in UTC) in which a job's GPUs started, were idle, or were lost.
gpu_time = Table(
    "gpu_time",
    metadata,
    _key(),
    Column("day", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("gpu_type", Text, nullable=False),
    Column("gpu_s", Double, nullable=False),
    PrimaryKeyConstraint("job_id", "day", "kind", "gpu_type"),
    Index("gpu_time_of_day", "day"),
)

# What was measured of earlier jobs of the same model, script or fingerprint, by the user whose they were.
profiles = Table(
    "profiles",
    metadata,
    Column("owner", Text, nullable=False, server_default=""),
    Column("fingerprint", Text, nullable=False),
    Column("time_s", Double, nullable=False),
    Column("measurements", Text, nullable=False),
    UniqueConstraint("owner", "fingerprint"),
)

machines = Table(
    "machines", metadata, Column("name", Text, primary_key=True), Column("text", Text, nullable=False)
)

users = Table(
    "users",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("disabled", Boolean, nullable=False, server_default=text("false")),
    Column("created_s", Double, nullable=False),
)

# Of a token only its digest is kept.
tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("label", Text, nullable=False, server_default=""),
    Column("created_s", Double, nullable=False),
    Column("expires_s", Double),
    Column("revoked_s", Double),
    Column("used_s", Double),
    Index("tokens_of_user", "user"),
)

# Who changed what. The hash of each row covers the row and the hash before.
audit = Table(
    "audit",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("time_s", Double, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("user", "role", "origin", "request", "verb")),
    *(Column(name, Text, nullable=False) for name in ("target", "outcome", "detail", "previous", "hash")),
    Index("audit_of_user", "user", "number"),
    Index("audit_of_target", "target", "number"),
)

# JSON of what each of the last rounds decided.
rounds = Table(
    "rounds",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("time_s", Double, nullable=False),
    Column("data", Text, nullable=False),
)

# Values that only processes of their user's jobs see. `key`: which key they are sealed with.
secrets = Table(
    "secrets",
    metadata,
    *(Column(name, Text, nullable=False) for name in ("user", "name", "key", "sealed")),
    Column("created_s", Double, nullable=False),
    Column("changed_s", Double, nullable=False),
    PrimaryKeyConstraint("user", "name"),
)

# Who is told of events. URL and secret are sealed, among the secrets.
webhooks = Table(
    "webhooks",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    *(Column(name, Text, nullable=False) for name in ("owner", "name", "shown", "events")),
    Column("by_job", Boolean, nullable=False),
    Column("after", _NUMBER, nullable=False),
    Column("created_s", Double, nullable=False),
    UniqueConstraint("owner", "name"),
    sqlite_autoincrement=True,
)

# Events on their way to webhooks. What is acknowledged or given up is gone.
deliveries = Table(
    "deliveries",
    metadata,
    Column("webhook", _NUMBER, nullable=False),
    Column("event", _NUMBER, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("at_s", Double, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("webhook", "event"),
)
