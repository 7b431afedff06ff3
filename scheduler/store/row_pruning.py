"""Removes old rows of a store, in transactions so small that no tick waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Delete, Table, and_, delete, exists, func, or_, select, true

from ...core.audit import AuditRow
from .audit import Entry
from .audit import read as read_audit
from .ended import ENDED
from .retention import EndedJob, cutoff_s
from .schema import audit, events, intervals, job_details, job_files, jobs, metric_points, profiles, rounds
from .store import Store

GOAL_S = 0.02  # of a transaction, of which none should take more than 0.05 s
FEWEST, MOST = 10, 2000  # rows of a transaction
PAGE = 200  # jobs that are looked at together


@dataclass(frozen=True)
class Log:
    """A table of numbered rows, which grows at its end. `over`: rows that may go."""

    name: str
    table: Table
    time_s: ColumnElement[Any]
    over: ColumnElement[bool]
    text: ColumnElement[Any]  # what of a row takes room

    @property
    def number(self) -> ColumnElement[int]:
        """Return the column that counts the rows."""
        return self.table.c.id if "id" in self.table.c else self.table.c.number


def _of_no_living(column: ColumnElement[Any]) -> ColumnElement[bool]:
    return or_(column.is_(None), ~exists().where(and_(jobs.c.id == column, ~jobs.c.retired)))


EVENTS = Log("events", events, events.c.time_s, _of_no_living(events.c.job_id), events.c.data)
INTERVALS = Log(
    "intervals",
    intervals,
    intervals.c.start_s,
    and_(_of_no_living(intervals.c.job_id), intervals.c.end_s.is_not(None)),
    intervals.c.gpu_type,
)
AUDIT = Log("rows of the audit log", audit, audit.c.time_s, true(), audit.c.detail)
ROUNDS = Log("rounds", rounds, rounds.c.time_s, true(), rounds.c.data)


class RowPruning:
    """Removes rows. `rest` is called after each transaction with its seconds; it returns False to stop."""

    def __init__(self, store: Store, rest: Callable[[float], bool]) -> None:
        self._store, self._rest = store, rest
        self._rows = 100  # of the next transaction
        self.longest_s = 0.0  # of a transaction

    # --- numbered rows --------------------------------------------------------------------------------------

    def last_old(self, log: Log, days: float | None, most: int | None, now: float) -> int:
        """Return the number up to which rows of a log are too old or too many; 0: none is."""
        ids = log.number
        with self._store.database.reading() as connection:
            low, high = connection.execute(select(func.min(ids), func.max(ids))).one()
            if low is None:
                return 0
            last, before_s = 0, cutoff_s(days, now)
            if before_s is not None:
                last = _last_before(connection, log, before_s, low, high)
            if most is not None and high - low >= most:
                at = select(ids).order_by(ids.desc()).offset(most).limit(1)
                last = max(last, connection.scalar(at) or 0)
        return int(min(last, high - 1))  # the newest row stays, as no number is given twice

    def count(self, log: Log, last: int) -> tuple[int, int]:
        """Return how many rows would go, and about how many bytes."""
        where = and_(log.number <= last, log.over)
        with self._store.database.reading() as connection:
            many = connection.scalar(select(func.count()).select_from(log.table).where(where)) or 0
            some = select(func.length(log.text).label("size")).where(where).limit(500).subquery()
            mean = float(connection.scalar(select(func.avg(some.c.size))) or 0.0)
        return many, int(many * (mean + 80))

    def remove_old(self, log: Log, last: int) -> int:
        """Remove rows of a log up to a number, and return how many."""
        ids, done, after = log.number, 0, 0
        while True:
            where = and_(ids > after, ids <= last, log.over)
            found = self._ids(select(ids).where(where).order_by(ids).limit(self._rows))
            if not found:
                return done
            after = found[-1]
            self._run(delete(log.table).where(ids.in_(found)))
            done += len(found)
            if not self._go_on():
                return done

    def remove_audit(self, last: int, told: Callable[[AuditRow], Entry]) -> int:
        """Remove rows of the audit log up to a number, and return how many.

        Args:
            told: makes of the last row that goes what is told of that, in the same transaction.
        """
        done = 0
        while True:
            with self._store.database.reading() as connection:
                found = read_audit(connection, audit.c.number <= last, 0, self._rows, oldest_first=True)
            if not found:
                return done
            self._run(delete(audit).where(audit.c.number <= found[-1].number), told(found[-1]))
            done += len(found)
            if not self._go_on():
                return done

    # --- jobs -----------------------------------------------------------------------------------------------

    def oldest(self, after: tuple[float, int] = (0.0, 0)) -> list[EndedJob]:
        """Return the oldest jobs that have ended, after one by its end and number."""
        key = and_(jobs.c.finished_s == after[0], jobs.c.number > after[1])
        query = (
            select(jobs.c.id, jobs.c.number, jobs.c.finished_s)
            .where(_OVER, or_(jobs.c.finished_s > after[0], key))
            .order_by(jobs.c.finished_s, jobs.c.number)
            .limit(PAGE)
        )
        with self._store.database.reading() as connection:
            return [EndedJob(*row) for row in connection.execute(query)]

    def ended(self) -> int:
        """Return how many jobs have ended."""
        with self._store.database.reading() as connection:
            return connection.scalar(select(func.count()).select_from(jobs).where(_OVER)) or 0

    def newest(self) -> frozenset[str]:
        """Return the jobs of the newest rows, which stay."""
        newest = (
            select(jobs.c.id).order_by(jobs.c.number.desc()).limit(1),
            select(events.c.job_id).order_by(events.c.id.desc()).limit(1),
            select(intervals.c.job_id).order_by(intervals.c.id.desc()).limit(1),
        )
        with self._store.database.reading() as connection:
            return frozenset(str(connection.scalar(one)) for one in newest)

    def ends(self, job_ids: Sequence[str]) -> dict[str, float]:
        """Return when jobs have ended; those that have not, or are not known, are absent."""
        found: dict[str, float] = {}
        with self._store.database.reading() as connection:
            for at in range(0, len(job_ids), 500):
                query = select(jobs.c.id, jobs.c.finished_s).where(jobs.c.id.in_(job_ids[at : at + 500]), _OVER)
                found |= {row.id: row.finished_s for row in connection.execute(query)}
        return found

    def bytes_of(self, job_ids: Sequence[str]) -> int:
        """Return about how many bytes the rows of jobs take."""
        total = 0
        sizes = ((job_files, "spec"), (job_details, "details"), (events, "data"))
        with self._store.database.reading() as connection:
            for at in range(0, len(job_ids), 500):
                for table, column in sizes:
                    size = select(func.sum(func.length(table.c[column]) + 80))
                    total += int(connection.scalar(size.where(table.c.job_id.in_(job_ids[at : at + 500]))) or 0)
        return total

    def remove_job(self, job: EndedJob) -> bool:
        """Remove all rows of a job, unless it has begun again. Return whether it is gone."""
        for table in (events, intervals):
            ids = table.c.id
            while found := self._ids(select(ids).where(table.c.job_id == job.id).limit(self._rows)):
                still = exists().where(jobs.c.id == job.id, _OVER)
                self._run(delete(table).where(ids.in_(found), still))
                if not self._go_on() or not self.ends([job.id]):
                    return False
        self.remove_points([job.id])
        same = and_(jobs.c.id == job.id, _OVER, jobs.c.finished_s == job.finished_s)
        gone = self._run(delete(jobs).where(same))
        self._go_on()
        return gone == 1

    # --- the rest -------------------------------------------------------------------------------------------

    def jobs_with_points(self, before_s: float) -> list[str]:
        """Return jobs that ended before a moment and whose metrics have a history."""
        has = exists().where(metric_points.c.job_id == jobs.c.id)
        query = select(jobs.c.id).where(_OVER, jobs.c.finished_s < before_s, has)
        with self._store.database.reading() as connection:
            return list(connection.scalars(query.order_by(jobs.c.finished_s)))

    def count_points(self, job_ids: Sequence[str]) -> int:
        """Return how many points these jobs have."""
        found = 0
        with self._store.database.reading() as connection:
            for at in range(0, len(job_ids), 500):
                where = metric_points.c.job_id.in_(job_ids[at : at + 500])
                found += connection.scalar(select(func.count()).select_from(metric_points).where(where)) or 0
        return found

    def remove_points(self, job_ids: Sequence[str]) -> int:
        """Remove the history of metrics of jobs, and return how many points that was."""
        done = 0
        table = metric_points
        for job_id in job_ids:
            while True:
                some = select(table.c.metric, table.c.number).where(table.c.job_id == job_id).limit(self._rows)
                with self._store.database.reading() as connection:
                    found = [tuple(row) for row in connection.execute(some)]
                if not found:
                    break
                by_name: dict[str, list[int]] = {}
                for name, number in found:
                    by_name.setdefault(name, []).append(number)
                where = or_(*(and_(table.c.metric == n, table.c.number.in_(of)) for n, of in by_name.items()))
                self._run(delete(table).where(table.c.job_id == job_id, where))
                done += len(found)
                if not self._go_on():
                    return done
        return done

    def old_profiles(self, days: float | None, most: int | None, now: float) -> list[tuple[str, str]]:
        """Return the keys of profiles that are too old or too many."""
        query = select(profiles.c.owner, profiles.c.fingerprint, profiles.c.time_s).order_by(profiles.c.time_s)
        with self._store.database.reading() as connection:
            found = connection.execute(query).all()
        before_s, too_many = cutoff_s(days, now), 0 if most is None else max(len(found) - most, 0)
        return [
            (row.owner, row.fingerprint)
            for at, row in enumerate(found)
            if at < too_many or (before_s is not None and row.time_s < before_s)
        ]

    def remove_profiles(self, keys: Sequence[tuple[str, str]]) -> int:
        """Remove profiles by their keys, and return how many."""
        done = 0
        while done < len(keys):
            part = keys[done : done + self._rows]
            where = or_(*(and_(profiles.c.owner == one, profiles.c.fingerprint == key) for one, key in part[:200]))
            self._run(delete(profiles).where(where))
            done += len(part[:200])
            if not self._go_on():
                break
        return done

    def named_packages(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these packages a job names."""
        found: set[str] = set()
        some = sorted(names)
        with self._store.database.reading() as connection:
            for at in range(0, len(some), 500):
                query = select(job_files.c.package).where(job_files.c.package.in_(some[at : at + 500])).distinct()
                found |= {str(name) for name in connection.scalars(query)}
        return frozenset(found)

    # --- inside ---------------------------------------------------------------------------------------------

    def _ids(self, query: Any) -> list[int]:
        with self._store.database.reading() as connection:
            return [int(number) for number in connection.scalars(query)]

    def _run(self, statement: Delete, told: Entry | None = None) -> int:
        """Remove rows in one transaction, and make the next one as large as fits its time. Return how many.

        Args:
            told: what the audit log tells of it.
        """
        gone: list[int] = []
        began_s = time.perf_counter()
        with self._store.together():
            self._store.write(lambda connection: gone.append(connection.execute(statement).rowcount))
            if told is not None:
                self._store.note(told)
        took_s = time.perf_counter() - began_s
        self._took_s, self.longest_s = took_s, max(self.longest_s, took_s)
        size = self._rows // 2 if took_s > GOAL_S else self._rows * 2 if took_s < GOAL_S / 4 else self._rows
        self._rows = min(max(size, FEWEST), MOST)
        return sum(gone)

    def _go_on(self) -> bool:
        return self._rest(self._took_s)


_OVER = and_(jobs.c.retired, jobs.c.phase.in_(ENDED), jobs.c.finished_s.is_not(None))


def _last_before(connection: Connection, log: Log, before_s: float, low: int, high: int) -> int:
    """Return the number of the last row before a moment, as rows are written in the order of their times."""
    ids, last = log.number, 0
    while low <= high:
        middle = (low + high) // 2
        row = connection.execute(select(ids, log.time_s).where(ids >= middle).order_by(ids).limit(1)).one_or_none()
        if row is None or row[1] >= before_s:
            high = middle - 1
        else:
            last = int(row[0])
            low = last + 1
    return last
