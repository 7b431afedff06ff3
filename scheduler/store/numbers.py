"""The highest numbers that a store ever gave. None of them is given twice, also not after a backup came back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, func, inspect, select

from .schema import audit, events, intervals, jobs, meta

FACT = "numbers"
_JOB_FOLDER = re.compile(r".+-(\d{1,15})(?:~\d+)?")


@dataclass(frozen=True)
class Numbers:
    """The highest numbers of jobs, events, intervals and rows of the audit log, and the highest epoch."""

    job: int = 0
    event: int = 0
    interval: int = 0
    epoch: int = 0
    audit: int = 0

    def __or__(self, other: Numbers) -> Numbers:
        """Return the higher ones of both."""
        mine, others = asdict(self), asdict(other)
        return Numbers(**{name: max(value, others[name]) for name, value in mine.items()})

    def to_json(self) -> str:
        """Return it as a fact of the store."""
        return json.dumps(asdict(self))


def read(connection: Connection) -> Numbers:
    """Return what a store was told to count on from; zeros where it was told nothing."""
    try:
        found = json.loads(connection.scalar(select(meta.c.value).where(meta.c.key == FACT)) or "{}")
        return Numbers(**{name: int(found[name]) for name in asdict(Numbers()) if name in found})
    except (ValueError, TypeError, AttributeError):
        return Numbers()


def given(connection: Connection) -> Numbers:
    """Return the highest numbers in a store."""

    def most(column: ColumnElement[int]) -> int:
        return int(connection.scalar(select(func.max(column))) or 0)

    epoch = connection.scalar(select(meta.c.value).where(meta.c.key == "epoch")) or 0
    has_audit = inspect(connection).has_table(audit.name)  # not in stores of earlier versions
    rows = most(audit.c.number) if has_audit else 0
    there = Numbers(most(jobs.c.number), most(events.c.id), most(intervals.c.id), int(epoch), rows)
    return there | read(connection)


def in_folders(folders: Iterable[Path]) -> Numbers:
    """Return the highest number of a job that has a folder among these: its files must not become another's."""
    names = [path.name for folder in folders if folder.is_dir() for path in folder.iterdir()]
    found = [int(match[1]) for name in names if (match := _JOB_FOLDER.fullmatch(name))]
    return Numbers(job=max(found, default=0))
