"""Who is told of events is kept, and what is on its way to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0006", "0005", None, None


def upgrade() -> None:
    """Make their tables."""
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


def downgrade() -> None:
    """Drop them. The version before tells nobody of anything."""
    for table in ("deliveries", "webhooks"):
        op.drop_table(table)
    op.execute("delete from meta where key='delivered'")
    op.execute("delete from secrets where \"user\" like 'webhook/%'")
