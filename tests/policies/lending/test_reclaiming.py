"""Borrowers that may be stopped: an owner whose turn comes never waits for them, and what they did is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from coadapt.policies.lending.book import Book, Pool, Running, Waiting
from coadapt.policies.lending.lending import lend_beside_needs
from coadapt.policies.lending.reclaiming import lend_what_is_left, serve_and_reclaim

from tests.support.lending import WINDOWS, Job, drawn, least_and_most, replay, strict


def ends_of(jobs: Sequence[Job], quotas: Mapping[str, int], pinned: set[int]) -> tuple[list[float], int]:
    """Return when each job ends, and how often one is stopped. A stop costs nothing here.

    Args:
        pinned: positions of jobs that may not be stopped.
    """
    jobs = sorted(jobs, key=lambda job: job.submitted)
    left, ended = [job.takes for job in jobs], [math.inf] * len(jobs)
    running, borrows, stops, now = set[int](), set[int](), 0, -1.0
    while math.inf in ended:
        comes = min((job.submitted for job in jobs if job.submitted > now), default=math.inf)
        until = min(comes, *(now + left[at] for at in running)) if running else comes
        for at in running:
            left[at] -= until - now
        now = until
        for at in [at for at in running if left[at] <= 1e-9]:
            ended[at] = now
            running.discard(at)
        pools = []
        for team, quota in quotas.items():
            pool = Pool(team, quota)
            for at, job in enumerate(jobs):
                if job.team != team or job.submitted > now or ended[at] < math.inf:
                    continue
                least, most = least_and_most(job.takes)
                been = job.takes - left[at]
                if at in running:
                    runs = Running(at, job.gpus, least - been, most - been, at not in pinned)
                    pool.runs(runs, borrows=at in borrows)
                else:
                    pool.waiting.append(Waiting(at, job.gpus, least, most, at not in pinned))
            pools.append(pool)
        book = Book.of(pools, sum(quotas.values()))
        served = serve_and_reclaim(book)

        def new_load(team: str, horizon: float, now: float = now) -> float:
            return sum(one.gpus for one in jobs if one.team == team and now < one.submitted < now + horizon)

        lent = [*lend_beside_needs(book, WINDOWS, new_load), *lend_what_is_left(book)]
        stops += len(served.stops)
        assert not set(served.stops) & pinned
        running -= set(served.stops)
        borrows -= {*served.stops, *served.own}
        for start in (*served.starts, *lent):
            running.add(start.at)
            borrows |= {start.at} if start.borrows else set()
        assert sum(jobs[at].gpus for at in running) <= sum(quotas.values())
    return ended, stops


@pytest.mark.parametrize("pinned", ["none", "odd", "all"])
def test_nobody_ends_later_than_without_lending(pinned: str) -> None:
    sooner = stopped = 0
    for seed in range(400):
        jobs, quotas = drawn(seed)
        jobs = sorted(jobs, key=lambda job: job.submitted)
        fixed = {"none": set(), "all": set(range(len(jobs)))}.get(pinned, set(range(1, len(jobs), 2)))
        reference = replay(jobs, quotas, strict)
        ended, stops = ends_of(jobs, quotas, fixed)
        for at, job in enumerate(jobs):
            assert ended[at] <= reference[job.name] + job.takes + 1e-6, (seed, job)
            sooner += ended[at] < reference[job.name] + job.takes - 1e-6
        stopped += stops
    assert sooner
    assert (stopped > 0) == (pinned != "all")


def test_a_borrower_whose_turn_comes_runs_on_where_it_is() -> None:
    pool = Pool("A", 2, [Waiting(3, 1)], borrowing=[Running(2, 2, stoppable=True)])
    book = Book.of([pool, Pool("B", 2)], 4)
    served = serve_and_reclaim(book)
    assert (served.own, served.stops, served.starts) == ([2], [], [])
    assert [job.at for job in pool.dedicated] == [2]
    assert [start.at for start in lend_what_is_left(book)] == [], "what may not be stopped borrows by windows only"


def test_an_owner_takes_back_from_the_newest_borrowers_and_no_more_than_it_needs() -> None:
    borrowers = [Running(at, gpus, stoppable=True) for at, gpus in ((1, 2), (4, 1), (5, 2))]
    owner = Pool("A", 4, [Waiting(9, 2)])
    book = Book.of([owner, Pool("B", 1, borrowing=borrowers)], 5)
    served = serve_and_reclaim(book)
    assert served.stops == [5]
    assert [start.at for start in served.starts] == [9]
    assert [job.at for job in book.pools[1].waiting] == [5]
