"""Who changed what is kept, as are the last rounds, and the secrets of users."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0004", "0003", None, None


def upgrade() -> None:
    """Make their tables."""
    op.create_table(
        "audit",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("time_s", sa.Double, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("user", "role", "origin", "request", "verb")),
        *(
            sa.Column(name, sa.Text, nullable=False)
            for name in ("target", "outcome", "detail", "previous", "hash")
        ),
    )
    op.create_index("audit_of_user", "audit", ["user", "number"])
    op.create_index("audit_of_target", "audit", ["target", "number"])
    op.create_table(
        "rounds",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("time_s", sa.Double, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_table(
        "secrets",
        *(sa.Column(name, sa.Text, nullable=False) for name in ("user", "name", "key", "sealed")),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.Column("changed_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("user", "name"),
    )


def downgrade() -> None:
    """Drop them. The version before knows nothing of what they hold."""
    for table in ("secrets", "rounds", "audit"):
        op.drop_table(table)
    op.execute("delete from meta where key='audit_head'")
