"""Replays jobs of teams on interchangeable GPUs, event by event: ends, then arrivals, then a decision."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from coadapt.policies.lending.book import Book, Pool, Running, Start, Waiting
from coadapt.policies.lending.dedicated import serve_dedicated
from coadapt.policies.lending.lending import Windows, lend_beside_needs, lend_in_bulk
from coadapt.policies.lending.virtual_clock import Known, alone, starts

WINDOWS = Windows((5.0, 60.0, 720.0))


@dataclass(frozen=True)
class Job:
    """A job of a team; times are minutes."""

    name: str
    team: str
    submitted: float
    takes: float
    gpus: int


def least_and_most(takes: float) -> tuple[float, float]:
    """Return the bounds of the class that a length is of: (0, 5], (5, 60], (60, 720] and beyond."""
    window = WINDOWS.of(takes)
    bounds = (0.0, *WINDOWS.horizons_s, math.inf)
    return bounds[window], bounds[window + 1]


@dataclass
class State:
    """What a decision sees."""

    now: float
    book: Book
    jobs: Sequence[Job]
    waiting: list[int]
    running: dict[int, float]  # position -> end

    def new_load(self, team: str, horizon: float) -> float:
        """Return what really comes in [now, now + horizon)."""
        return sum(
            job.gpus for job in self.jobs if job.team == team and self.now < job.submitted < self.now + horizon
        )


Decide = Callable[[State], list[Start]]


def replay(
    jobs: Sequence[Job],
    quotas: Mapping[str, int],
    decide: Decide,
    *,
    bounds: Callable[[Job], tuple[float, float]] = lambda job: least_and_most(job.takes),
    tick: float | None = None,
) -> dict[str, float]:
    """Return when each job starts, by name; inf: never. Checks at every event that nothing is exceeded."""
    gpus = sum(quotas.values())
    order = sorted(range(len(jobs)), key=lambda at: (jobs[at].submitted, at))
    begun, borrows, ends = dict[int, float](), set[int](), dict[int, float]()
    times = sorted({job.submitted for job in jobs})
    while times:
        now = times.pop(0)
        ends = {at: end for at, end in ends.items() if end > now}
        waiting = [at for at in order if jobs[at].submitted <= now and at not in begun]
        pools = []
        for team, quota in quotas.items():
            of = [at for at in waiting if jobs[at].team == team]
            pool = Pool(team, quota, [Waiting(at, jobs[at].gpus, *bounds(jobs[at])) for at in of])
            for at in ends:
                if jobs[at].team == team:
                    least, most = bounds(jobs[at])
                    been = now - begun[at]
                    runs = Running(at, jobs[at].gpus, least - been, math.inf if been > most else most - been)
                    pool.runs(runs, borrows=at in borrows)
            pools.append(pool)
        for start in decide(State(now, Book.of(pools, gpus), jobs, waiting, dict(ends))):
            assert start.at in waiting
            assert start.at not in begun
            begun[start.at] = now
            ends[start.at] = now + jobs[start.at].takes
            borrows |= {start.at} if start.borrows else set()
        assert sum(jobs[at].gpus for at in ends) <= gpus
        for team, quota in quotas.items():
            assert sum(jobs[at].gpus for at in ends if jobs[at].team == team and at not in borrows) <= quota
        more = {end for end in ends.values() if end > now}
        if tick is not None and len(begun) < len(jobs) and (times or more):
            more.add((now // tick + 1) * tick)
        times = sorted({*times, *more})
    return {job.name: begun.get(at, math.inf) for at, job in enumerate(jobs)}


def anticipatory(state: State, windows: Windows = WINDOWS) -> list[Start]:
    return [*serve_dedicated(state.book), *lend_in_bulk(state.book, windows, state.new_load)]


def blocking(state: State, windows: Windows = WINDOWS) -> list[Start]:
    return [*serve_dedicated(state.book), *lend_beside_needs(state.book, windows, state.new_load)]


def strict(state: State) -> list[Start]:
    return serve_dedicated(state.book)


def known(jobs: Sequence[Job], team: str | None = None) -> list[Known]:
    return [
        Known(at, job.submitted, job.takes, job.gpus) for at, job in enumerate(jobs) if team in (None, job.team)
    ]


def virtual_clock(quotas: Mapping[str, int], *, literal: bool = False) -> Decide:
    """Return the decision by perfect foresight; literal: start times alone are found anew from what runs."""

    def decide(state: State) -> list[Start]:
        open_ = [at for at, job in enumerate(state.jobs) if at in state.waiting or job.submitted > state.now]
        due: dict[int, float] = {}
        for team, quota in quotas.items():
            own = [one for one in known(state.jobs, team) if not literal or one.id in open_]
            busy = [(end, state.jobs[at].gpus) for at, end in state.running.items() if state.jobs[at].team == team]
            due |= alone(own, quota, state.now, busy) if literal else alone(own, quota)
        running = [(end, state.jobs[at].gpus) for at, end in state.running.items()]
        of_open = [one for one in known(state.jobs) if one.id in open_]
        return [Start(at, True) for at in starts(of_open, due, running, sum(quotas.values()), state.now)]

    return decide


def drawn(seed: int, *, teams: int = 3, jobs: int = 20) -> tuple[list[Job], dict[str, int]]:
    """Return jobs of all lengths and widths, and the quotas of their teams."""
    rng = random.Random(seed)
    quotas = {f"team-{team}": rng.randint(1, 8) for team in range(teams)}
    found = []
    for at in range(jobs):
        team = rng.choice(list(quotas))
        takes = rng.choice([rng.randint(1, 10), rng.randint(1, 10), rng.randint(10, 80), rng.randint(60, 900)])
        gpus = min(rng.choice([1, 1, 1, 2, 2, 4, 8]), quotas[team])
        found.append(Job(f"j{at}", team, float(rng.randint(0, 200)), float(takes), gpus))
    return found, quotas
