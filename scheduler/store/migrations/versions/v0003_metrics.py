"""What scripts report has a history."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0003", "0002", None, None


def upgrade() -> None:
    """Make its table."""
    op.create_table(
        "metric_points",
        sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id", ondelete="cascade"), nullable=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("epoch", sa.Integer),
        sa.Column("samples", sa.BigInteger),
        sa.Column("value", sa.Double),
        sa.PrimaryKeyConstraint("job_id", "metric", "number"),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("metric_points")
