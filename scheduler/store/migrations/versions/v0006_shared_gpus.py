"""It is kept which part of each GPU a job held, since two jobs may share one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0006", "0005", None, None


def upgrade() -> None:
    """Let jobs have held whole GPUs so far."""
    op.add_column("intervals", sa.Column("share", sa.Double, nullable=False, server_default="1"))


def downgrade() -> None:
    """Drop it. To the version before, each job of a pair held the GPUs whole."""
    op.drop_column("intervals", "share")
