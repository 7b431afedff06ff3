"""Which jobs are told to a user, as a condition of queries."""

from __future__ import annotations

from sqlalchemy import ColumnElement, or_

from ...core.identity import Reader
from .schema import jobs


def told_to(reader: Reader) -> ColumnElement[bool]:
    """Return the condition that fits the jobs that a user may read, as `Reader.may_read` does."""
    own = jobs.c.owner == reader.user
    return or_(own, jobs.c.team.in_(reader.teams)) if reader.teams else own
