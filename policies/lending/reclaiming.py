"""Borrowers that may be stopped: they borrow freely, and give back when the owner's turn comes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from .book import Book, Pool, Running, Start, Waiting


@dataclass
class Served:
    """What a decision does. `stops`: positions of borrowers that give back; `own`: those that no longer borrow."""

    starts: list[Start] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)


def serve_and_reclaim(book: Book) -> Served:
    """Serve teams on their own quotas, strictly by submission, as if nobody borrowed.

    A borrower whose turn comes becomes a dedicated job where it runs. One whose turn comes while it waits takes
    GPUs back from borrowers that may be stopped, the newest of them first.
    """
    found = Served()
    while True:
        for pool in book.ordered():
            job = next(iter(pool.turns), None)
            if job is None or job.gpus > pool.unused:
                continue
            if isinstance(job, Running):
                pool.gives_back(job)
                pool.runs(job, borrows=False)
                found.own.append(job.at)
                break
            if (going := _going(book, job.gpus - book.idle)) is not None:
                for owner, borrower in going:
                    _stop(book, owner, borrower)
                    found.stops.append(borrower.at)
                found.starts.append(book.start(pool, job, borrows=False))
                break
        else:
            return found


def lend_what_is_left(book: Book) -> list[Start]:
    """Start whoever may be stopped on what is idle, of the team that has least first; nothing is kept back."""
    found: list[Start] = []
    while book.idle > 0:
        for pool in book.ordered():
            job = next((one for one in pool.waiting if one.stoppable and one.gpus <= book.idle), None)
            if job is not None:
                found.append(book.start(pool, job, borrows=True))
                break
        else:
            break
    return found


def _going(book: Book, gpus: int) -> list[tuple[Pool, Running]] | None:
    """Return borrowers that give so many GPUs back, the newest first; None: there are not enough."""
    found, left = list[tuple[Pool, Running]](), gpus
    stoppable = [(pool, job) for pool in book.pools for job in pool.borrowing if job.stoppable]
    for pool, job in sorted(stoppable, key=lambda one: -one[1].at):
        if left <= 0:
            break
        found.append((pool, job))
        left -= job.gpus
    if left > 0:
        return None
    for pool, job in list(found):  # an early choice may not be needed beside a larger later one
        if left + job.gpus <= 0:
            found.remove((pool, job))
            left += job.gpus
    return found


def _stop(book: Book, pool: Pool, job: Running) -> None:
    """Take a borrower's GPUs; it waits again at its place by submission."""
    pool.gives_back(job)
    book.idle += job.gpus
    waits = Waiting(job.at, job.gpus, job.least_s, job.most_s, stoppable=True)
    pool.waiting.insert(sum(one.at < job.at for one in pool.waiting), waits)
