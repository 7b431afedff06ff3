"""Writes who changed what, and who was refused. Refused tries are bounded, as disks are."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TypeVar

from ..runtime.clock import Clock
from ..runtime.degraded import StoreWatch
from ..store import audit
from ..store.audit import Entry, asking
from ..store.failures import StoreFailure
from ..store.store import Store

BURST, ONE_MORE_S = 60, 30.0  # refused tries of one user that are told at once, and then one in so long
MOST_USERS = 1000  # whose tries are counted; tries without a token count as those of one user
NOTHING = "nothing to do"
Found = TypeVar("Found")


class Bucket:
    """Lets some through at once, and then one now and then."""

    def __init__(self, now_s: float) -> None:
        self._left, self._at_s = float(BURST), now_s
        self.left_out = 0

    def take(self, now_s: float) -> bool:
        """Return whether one more may pass."""
        self._left = min(self._left + (now_s - self._at_s) / ONE_MORE_S, BURST)
        self._at_s = now_s
        if self._left < 1:
            self.left_out += 1
            return False
        self._left -= 1
        return True


class AuditLog:
    """The audit log of one store. Several threads may call it."""

    def __init__(self, store: Store, clock: Clock, watch: StoreWatch) -> None:
        self._store, self._clock, self._watch = store, clock, watch
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def run(self, about: Mapping[str, str], work: Callable[[], Found]) -> Found:
        """Do what somebody asks, and return what it returns. What it stores first, its row is stored with.

        Args:
            about: fields of `Entry` that say who asks for what.

        Raises: what the work raises.
        """
        entry = self._entry(about)
        try:
            with asking(entry):
                found = work()
        except Exception as error:
            self._refused(entry, _sentence(error))
            raise
        if entry.written:
            return found
        if found is False:
            self._refused(entry, NOTHING)
        else:
            self._note(entry)
        return found

    def refused(self, about: Mapping[str, str], why: str) -> None:
        """Tell of a change that the API did not let through."""
        self._refused(self._entry(about), why)

    def _entry(self, about: Mapping[str, str]) -> Entry:
        told: dict[str, Any] = dict(about)
        return Entry(**told, time_s=self._clock.wall_s())

    def _refused(self, entry: Entry, why: str) -> None:
        now_s = self._clock.monotonic_s()
        bucket = self._buckets.setdefault(entry.user, Bucket(now_s))
        self._buckets.move_to_end(entry.user)
        while len(self._buckets) > MOST_USERS:
            self._buckets.popitem(last=False)
        if self._watch.degraded is not None:  # each would wait for the store in vain
            bucket.left_out += 1
            return
        if not bucket.take(now_s):
            return
        entry.outcome, entry.written = why[:500], False
        entry.before, entry.after = {}, {"left_out_before": bucket.left_out} if bucket.left_out else {}
        bucket.left_out = 0
        self._note(entry)

    def _note(self, entry: Entry) -> None:
        with suppress(StoreFailure):  # nothing is changed then either, but what lies outside the store
            self._store.note(entry)

    def page(
        self,
        after: int | None,
        most: int,
        user: str | None = None,
        job: str | None = None,
        verb: str | None = None,
        since_s: float | None = None,
        oldest_first: bool = False,
    ) -> dict[str, Any]:
        """Return `rows` that fit, newest first, the `next` place, and the `head` of the chain.

        Args:
            after: the number of the last row of the page before.
            verb: such as `job.cancel`, or `job` for all of them.
            since_s: seconds since 1970.
        """
        where = audit.chosen(user, job, verb, since_s)
        with self._store.database.reading() as connection:
            head = audit.head(connection)
            found = audit.read(connection, where, after, most + 1, oldest_first=oldest_first)
        rows = [asdict(row) for row in found[:most]]
        return {"rows": rows, "next": rows[-1]["number"] if len(found) > most else None, "head": head}


def _sentence(error: Exception) -> str:
    told = error.args[0] if isinstance(error, KeyError) and error.args else error
    lines = str(told).splitlines()
    return f"refused: {lines[0] if lines else type(error).__name__}"
