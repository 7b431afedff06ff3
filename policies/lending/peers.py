"""What other schedulers do with idle GPUs of teams; nothing that runs is stopped. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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


def serve_worst_off(book: Book, now: float, submitted_s: Sequence[float], fairness: float = 0.8) -> list[Start]:
    """Start the first job of a team that is worst off, on any idle GPUs; then look again (Themis, not preemptive).

    A team is as far off as its first job: the time that it takes if it starts now, waiting included, over the time
    that it takes alone. Idle GPUs are offered to the worst part 1 - `fairness` of teams with waiting jobs, to one
    at least. Of those that fit the one starts that is furthest off. Nobody else fills what these leave.

    Args:
        submitted_s: of each job by position, on the clock of `now`.
    """
    found: list[Start] = []
    while heads := [(pool, pool.waiting[0]) for pool in book.pools if pool.waiting]:
        heads.sort(key=lambda one: (-_off(one[1], now, submitted_s), one[1].at))
        offered = heads[: max(round((1 - fairness) * len(heads)), 1)]
        chosen = next(((pool, job) for pool, job in offered if job.gpus <= book.idle), None)
        if chosen is None:
            break
        found.append(_started(book, *chosen))
    return found


def _off(job: Waiting, now: float, submitted_s: Sequence[float]) -> float:
    """Return the finish-time fairness of a job that starts now; 1 if nobody knows its length."""
    takes_s = max(job.most_s, 1.0)
    return 1.0 if math.isinf(takes_s) else (now - submitted_s[job.at] + takes_s) / takes_s


def _started(book: Book, pool: Pool, job: Waiting) -> Start:
    """Start a job, on the quota if it has room there."""
    return book.start(pool, job, borrows=job.gpus > pool.unused)
