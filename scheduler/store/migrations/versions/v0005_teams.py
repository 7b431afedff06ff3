"""It is kept whose team's share a job uses, and of which array it is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0005", "0004", None, None


def upgrade() -> None:
    """Add their columns."""
    for name in ("team", "array"):
        op.add_column("jobs", sa.Column(name, sa.Text, nullable=False, server_default=""))
        op.create_index(f"jobs_of_{name}", "jobs", [name, "number"])


def downgrade() -> None:
    """Drop them. The version before knows no teams, and elements of arrays are jobs to it."""
    for name in ("array", "team"):
        op.drop_index(f"jobs_of_{name}", "jobs")
        op.drop_column("jobs", name)
    op.execute("delete from meta where key='teams'")
