"""What other schedulers do with idle GPUs of teams; nothing that runs is stopped. Pure."""

from __future__ import annotations

from collections.abc import Callable

from .book import Book, Pool, Start, Waiting

Key = Callable[[Waiting], float]


def service(job: Waiting) -> float:
    """Return the GPU-seconds of a job: the key of shortest service first."""
    return job.service


def duration(job: Waiting) -> float:
    """Return the seconds of a job: the key of shortest job first."""
    return job.most_s


def serve_shortest(book: Book, key: Key) -> list[Start]:
    """Start the shortest jobs of each team on its own quota. The first that does not fit holds up its team."""
    found: list[Start] = []
    for pool in book.pools:
        for job in sorted(pool.waiting, key=key):
            if job.gpus > min(pool.unused, book.idle):
                break
            found.append(book.start(pool, job, borrows=False))
    return found


def serve_shortest_of_all(book: Book, key: Key) -> list[Start]:
    """Start the shortest jobs of all teams on all GPUs. The first that does not fit holds up all."""
    of = [(pool, job) for pool in book.pools for job in pool.waiting]
    found: list[Start] = []
    for pool, job in sorted(of, key=lambda one: (key(one[1]), one[1].at)):
        if job.gpus > book.idle:
            break
        found.append(_started(book, pool, job))
    return found


def serve_max_min(book: Book) -> list[Start]:
    """Start the first job of the team that has least, on any idle GPUs; then look again."""
    found: list[Start] = []
    while True:
        for pool in book.ordered():
            if pool.waiting and pool.waiting[0].gpus <= book.idle:
                found.append(_started(book, pool, pool.waiting[0]))
                break
        else:
            return found


def lend_all(book: Book) -> list[Start]:
    """Start whoever waits on idle GPUs, by submission, and keep nothing back (HiveD without preemption)."""
    of = [(pool, job) for pool in book.pools for job in pool.waiting]
    found: list[Start] = []
    for pool, job in sorted(of, key=lambda one: one[1].at):
        if job.gpus <= book.idle:
            found.append(book.start(pool, job, borrows=True))
    return found


def _started(book: Book, pool: Pool, job: Waiting) -> Start:
    """Start a job, on the quota if it has room there."""
    return book.start(pool, job, borrows=job.gpus > pool.unused)
