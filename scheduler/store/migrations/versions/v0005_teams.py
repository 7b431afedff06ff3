"""It is kept whose team's share a job uses, of which array it is, what it wasted, and who is told of events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0005", "0004", None, None


def upgrade() -> None:
    """Add columns of jobs, and tables of GPU time, of webhooks and of what is on its way to them."""
    for name in ("team", "array"):
        op.add_column("jobs", sa.Column(name, sa.Text, nullable=False, server_default=""))
        op.create_index(f"jobs_of_{name}", "jobs", [name, "number"])
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "webhooks",
        sa.Column("number", number, primary_key=True, autoincrement=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("owner", "name", "shown", "events")),
        sa.Column("by_job", sa.Boolean, nullable=False),
        sa.Column("after", number, nullable=False),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.UniqueConstraint("owner", "name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "deliveries",
        sa.Column("webhook", number, nullable=False),
        sa.Column("event", number, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("webhook", "event"),
    )
    op.create_table(
        "gpu_time",
        sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id", ondelete="cascade"), nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("day", "kind", "gpu_type")),
        sa.Column("gpu_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "day", "kind", "gpu_type"),
    )
    op.create_index("gpu_time_of_day", "gpu_time", ["day"])


def downgrade() -> None:
    """Drop them. The version before knows no teams and no webhooks; elements of arrays are jobs to it."""
    op.drop_table("gpu_time")
    for name in ("array", "team"):
        op.drop_index(f"jobs_of_{name}", "jobs")
        op.drop_column("jobs", name)
    op.execute("delete from meta where key='teams'")
    for table in ("deliveries", "webhooks"):
        op.drop_table(table)
    op.execute("delete from meta where key='delivered'")
    op.execute("delete from secrets where \"user\" like 'webhook/%'")
