"""The first version: a record is one JSON text."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0001", None, None, None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make its tables."""
    op.create_table(
        "meta", sa.Column("key", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False)
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False, unique=True),
        sa.Column("idempotency_key", sa.Text, unique=True),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("measurements", sa.Text, nullable=False, server_default=""),
    )
    op.create_table(
        "events",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("time_s", sa.Double, nullable=False),
        sa.Column("job_id", sa.Text),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("events_of_job", "events", ["job_id", "id"])
    of_cluster = sa.text("job_id is null and kind<>'plan'")
    op.create_index("events_of_cluster", "events", ["id"], sqlite_where=of_cluster, postgresql_where=of_cluster)
    op.create_table(
        "intervals",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("start_s", sa.Double, nullable=False),
        sa.Column("end_s", sa.Double),
        sa.Column("gpu_type", sa.Text, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("batch_size", sa.Integer),
        sa.Column("lr", sa.Double),
        sa.Column("phase", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("intervals_of_job", "intervals", ["job_id", "id"])
    op.create_table(
        "profiles",
        sa.Column("fingerprint", sa.Text, primary_key=True),
        sa.Column("time_s", sa.Double, nullable=False),
        sa.Column("measurements", sa.Text, nullable=False),
    )
    op.create_table(
        "machines", sa.Column("name", sa.Text, primary_key=True), sa.Column("text", sa.Text, nullable=False)
    )
    op.execute("insert into meta values('version', '1')")


def downgrade() -> None:
    """There is no version before."""
    raise NotImplementedError("there is no version before 0001")
