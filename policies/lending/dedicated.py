"""Who starts on its own team's quota: strictly in order of submission within each team. Pure."""

from __future__ import annotations

from .book import Book, Pool, Start, Waiting


def next_of(pool: Pool, idle: int) -> Waiting | None:
    """Return the first job of a queue if it fits in the rest of its quota and in what is idle; else None.

    No other job of the queue overtakes it, so that nobody ever starts later than with no lending at all: with
    strict order a job that is removed or shortened delays nobody behind it.
    """
    if not pool.waiting:
        return None
    head = pool.waiting[0]
    return head if head.gpus <= min(pool.unused, idle) else None


def serve_dedicated(book: Book) -> list[Start]:
    """Start jobs on their own quotas, one after another, the team that has least first (Figure 7)."""
    found: list[Start] = []
    while True:
        for pool in book.ordered():
            if (job := next_of(pool, book.idle)) is not None:
                found.append(book.start(pool, job, borrows=False))
                break
        else:
            return found
