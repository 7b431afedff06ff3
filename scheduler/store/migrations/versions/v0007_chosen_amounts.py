"""A job file may leave CPUs and memory to the scheduler: what was a default before is now left out."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0007", "0006", None, None

_BEFORE = {"cpus_per_gpu": 1.0, "memory_gib_per_gpu": 0.0}  # defaults, which stored job files spell out


def upgrade() -> None:
    """Take the old defaults out of stored job files. Nobody knows any more who had written them himself."""
    _change(lambda field, value: None if value == _BEFORE[field] else value)


def downgrade() -> None:
    """Put the old defaults in where the scheduler is to choose."""
    _change(lambda field, value: _BEFORE[field] if value is None else value)


def _change(changed: Any) -> None:
    files = sa.table("job_files", *(sa.column(name) for name in ("job_id", "file", "spec")))
    there = op.get_bind()
    for row in there.execute(sa.select(files)).all():
        try:
            spec = json.loads(row.spec)
            resources = spec["resources"]
            new = {**resources, **{field: changed(field, resources.get(field)) for field in _BEFORE}}
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # what cannot be read is kept as it is
        if new != resources:
            where = (files.c.job_id == row.job_id) & (files.c.file == row.file)
            text = json.dumps({**spec, "resources": new}, separators=_separators(row.spec), ensure_ascii=False)
            there.execute(files.update().where(where).values(spec=text))


def _separators(text: str) -> tuple[str, str]:
    """Return those with which a JSON text was written."""
    return (", ", ": ") if text.startswith('{"name": ') else (",", ":")
