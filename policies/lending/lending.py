"""Who borrows: jobs that end before those they borrow from can need the GPUs. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from .book import Book, Pool, Start, Turn, Waiting
from .reserving import NewLoad, blocking, bulk


@dataclass(frozen=True)
class Windows:
    """Horizons in s, ascending. A job is of the first window that holds it for sure; len(windows): of none."""

    horizons_s: tuple[float, ...]

    def of(self, most_s: float) -> int:
        return bisect_left(self.horizons_s, most_s)

    def __len__(self) -> int:
        return len(self.horizons_s)

    def hold_any(self, book: Book) -> bool:
        """Return whether a job waits that may not be stopped, and that a window holds."""
        last_s = max(self.horizons_s, default=0.0)
        return any(job.most_s <= last_s and not job.stoppable for pool in book.pools for job in pool.waiting)


def lend_in_bulk(book: Book, windows: Windows, new_load: NewLoad, slack: float = 0.0) -> list[Start]:
    """Start borrowers as published: window by window, beside what all teams may come to need within it (Figure 8).

    Args:
        slack: so much more is kept back, as a part of what waits and comes.
    """
    found: list[Start] = []
    if book.idle <= 0:
        return found
    for window, horizon_s in enumerate(windows.horizons_s):
        kept = {pool.name: bulk(pool, new_load(pool.name, horizon_s), slack) for pool in book.pools}
        while (chosen := _first(book, windows, window, book.idle - sum(kept.values()))) is not None:
            pool, job = chosen
            found.append(book.start(pool, job, borrows=True))
            kept[pool.name] = bulk(pool, new_load(pool.name, horizon_s), slack)
    return found


def _first(book: Book, windows: Windows, window: int, usable: float) -> tuple[Pool, Waiting] | None:
    """Return the first job that fits into what may be lent for a window, of the team that has least."""
    if usable <= 0:
        return None
    for pool in book.ordered():
        for job in pool.waiting:
            if job.gpus <= usable and windows.of(job.most_s) <= window:
                return pool, job
    return None


def lend_beside_needs(book: Book, windows: Windows, new_load: NewLoad, slack: float = 0.0) -> list[Start]:
    """Start borrowers where at each moment until they have ended the rest covers what teams can need by then.

    What teams can need is computed anew without the job that is lent to: it may have held up others behind it.
    """
    found = list[Start]()
    if book.idle <= 0 or not windows.hold_any(book):
        return found
    lent = Lent(book, windows, new_load, slack)
    for window in range(len(windows)):
        while (chosen := lent.next(window)) is not None:
            pool, job = chosen
            found.append(book.start(pool, job, borrows=True))
            lent.took(pool, job)
    return found


class Lent:
    """What is lent, by the window in which it is back, and what teams can need until then.

    Only ends of borrowers matter: between two of them needs grow and nothing comes back. So the rest has to cover
    the needs of a window if somebody is back in it, with what is back before the window begins.
    """

    def __init__(self, book: Book, windows: Windows, new_load: NewLoad, slack: float) -> None:
        self._book, self._windows, self._slack = book, windows, slack
        horizons = list(enumerate(windows.horizons_s))
        self._new = {(pool.name, w): new_load(pool.name, s) for pool in book.pools for w, s in horizons}
        self._back = [0] * (len(windows) + 1)  # GPUs; the last are never back for sure
        for job in book.borrowers:
            if not job.stoppable:
                self._back[windows.of(job.most_s)] += job.gpus
        self._needs = {(pool.name, w): self._need(pool, pool.turns, w) for pool in book.pools for w, _ in horizons}
        self._sums = [sum(self._needs[pool.name, w][0] for pool in book.pools) for w, _ in horizons]

    def next(self, window: int) -> tuple[Pool, Waiting] | None:
        """Return the first job of at most a window that may borrow, of the team that has least.

        Jobs that may be stopped are not looked at: they borrow without a window.
        """
        if self._book.idle <= 0:
            return None
        for pool in self._book.ordered():
            depth = max(self._needs[pool.name, w][1] for w in range(len(self._windows)))
            unsafe = set[tuple[int, int]]()  # (GPUs, own window) of jobs on which no need hangs: one is as another
            for place, job in enumerate(pool.turns):
                if not isinstance(job, Waiting) or job.stoppable or job.gpus > self._book.idle:
                    continue
                own = self._windows.of(job.most_s)
                if own > window or (place >= depth and (job.gpus, own) in unsafe):
                    continue
                if self._is_safe(pool, place, own):
                    return pool, job
                if place >= depth:
                    unsafe.add((job.gpus, own))
        return None

    def took(self, pool: Pool, job: Waiting) -> None:
        """Note that a job borrows, after the book has."""
        self._back[self._windows.of(job.most_s)] += job.gpus
        for window in range(len(self._windows)):
            before, now = self._needs[pool.name, window], self._need(pool, pool.turns, window)
            self._needs[pool.name, window] = now
            self._sums[window] += now[0] - before[0]

    def _need(self, pool: Pool, queue: Sequence[Turn], window: int) -> tuple[float, int]:
        """Return what a team can need within a window, and how many jobs of its queue that hangs on."""
        need, count = blocking(pool, queue, self._windows.horizons_s[window], self._new[pool.name, window])
        return min((1 + self._slack) * need, pool.unused), count

    def _is_safe(self, pool: Pool, place: int, own: int) -> bool:
        """Return whether the job at a place of a queue may borrow until the end of its own window.

        Later it is back, so only a need that grows as it leaves the queue can harm there.
        """
        turns = pool.turns
        gpus, others = turns[place].gpus, [*turns[:place], *turns[place + 1 :]]
        for window in range(len(self._windows)):
            if window != own and not self._back[window]:
                continue
            left = self._book.recoverable + sum(self._back[:window]) - self._sums[window]
            taken = gpus if window <= own else 0
            if left + (1 + self._slack) * gpus < taken:  # no need falls by more than the job
                return False
            need, count = self._needs[pool.name, window]
            if place >= count:
                if left < taken:
                    return False
                continue
            more = self._need(pool, others, window)[0] - need
            if left - more < taken and (taken or more > 0):
                return False
        return True
