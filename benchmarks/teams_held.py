"""What teams held of each GPU type, and what they waited for, as the event log of a store tells. Pure.

A GPU is held from the moment that it is given to a job until the job has left it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from coadapt.core.events import EventKind
from coadapt.core.teams import Teams
from coadapt.scheduler.store.events import Event


@dataclass(frozen=True)
class TeamJob:
    """A job of one GPU or more.

    own: whether it asks for the guarantee of its team; others only borrow.
    gpu_types: those that it may run on.
    asks_s: from when to when it may hold GPUs.
    """

    team: str
    own: bool
    gpu_types: frozenset[str]
    asks_s: tuple[float, float]


@dataclass(frozen=True)
class Given:
    """What a job was last told to use. since_s: from when on its lease of a job counts."""

    gpu_type: str
    gpus: int
    since_s: float


@dataclass(frozen=True)
class Moment:
    """What jobs hold from `time_s` on, by GPU type, and what they were told to use."""

    time_s: float
    held: Mapping[str, Mapping[str, int]]
    given: Mapping[str, Given]

    def of_type(self, gpu_type: str) -> dict[str, int]:
        """Return the GPUs of a type by job, of the jobs that hold some."""
        return {job: counts[gpu_type] for job, counts in self.held.items() if counts.get(gpu_type)}

    def told(self, job: str, gpu_type: str) -> int:
        """Return how many GPUs of a type a job was told to use."""
        given = self.given.get(job)
        return 0 if given is None or given.gpu_type != gpu_type else given.gpus


@dataclass
class Found:
    """What is read of a log.

    over_cap: a line for each event after which a team held more than its cap.
    lent_s: how long GPUs of an idle guarantee were free while another team's job waited for them, each time.
    lent: GPUs of guarantees that were given to other teams.
    back_s: how long a guarantee that was asked for lacked GPUs beyond leases of jobs, each time.
    waited_s: the same, leases included.
    reclaimed: jobs that gave way while a guarantee lacked GPUs, once for each time.
    """

    over_cap: list[str] = field(default_factory=list)
    lent_s: list[float] = field(default_factory=list)
    lent: int = 0
    back_s: list[float] = field(default_factory=list)
    waited_s: list[float] = field(default_factory=list)
    reclaimed: list[str] = field(default_factory=list)


def moments(events: Iterable[Event], jobs: Mapping[str, TeamJob]) -> list[Moment]:
    """Return what was held after each event that changed it, and when jobs began or ceased to ask."""
    asks = sorted(at_s for job in jobs.values() for at_s in job.asks_s)
    found = [Moment(-math.inf, {}, {})]
    for event in sorted(events, key=lambda one: one.number):
        job, last = event.job_id, found[-1]
        if job is None or job not in jobs or "held" not in event.data:
            continue
        time_s = max(event.time_s, last.time_s)
        while asks and asks[0] <= time_s:
            found.append(replace(found[-1], time_s=asks.pop(0)))
        held, given = {**last.held, job: event.data["held"]}, dict(last.given)
        if event.kind is EventKind.PLACED:
            given[job] = _given(last.given.get(job), event)
        elif not event.data["held"]:
            given.pop(job, None)
        found.append(Moment(time_s, held, given))
    return [*found, *(replace(found[-1], time_s=at_s) for at_s in asks if at_s < math.inf)]


def _given(before: Given | None, event: Event) -> Given:
    gpus = event.data["gpus"]
    gpu_type = event.data["gpu_type"] or ""
    same = before is not None and (not gpus or (gpu_type == before.gpu_type and gpus <= before.gpus))
    return Given(gpu_type, gpus, before.since_s if before is not None and same else event.time_s)


def read(
    log: Sequence[Moment], jobs: Mapping[str, TeamJob], teams: Teams, capacity: Mapping[str, int], since_s: float
) -> Found:
    """Return what the log tells of teams.

    Args:
        capacity: GPUs of the cluster by type.
        since_s: from when on what is lent counts; before, jobs are measured on GPUs that count for no team.
    """
    found = Found()
    for before, moment in pairwise(log):
        if moment.held is before.held:
            continue
        for name, team in teams.teams.items():
            for gpu_type, cap in team.cap.items():
                has = _of_team(moment, jobs, name, gpu_type)
                if has > cap:
                    found.over_cap.append(f"{moment.time_s:.1f}: {name} holds {has} {gpu_type}, its cap is {cap}")
    for name, team in teams.teams.items():
        for gpu_type, guarantee in team.guarantee.items():
            of = _Guarantee(log, jobs, teams, name, gpu_type, guarantee, capacity[gpu_type])
            of.lending(found, since_s)
            of.coming_back(found)
    return found


def _of_team(moment: Moment, jobs: Mapping[str, TeamJob], team: str, gpu_type: str) -> int:
    return sum(gpus for job, gpus in moment.of_type(gpu_type).items() if jobs[job].team == team)


@dataclass(frozen=True)
class _Guarantee:
    """One guarantee of one team over a whole log."""

    log: Sequence[Moment]
    jobs: Mapping[str, TeamJob]
    teams: Teams
    team: str
    gpu_type: str
    guarantee: int
    capacity: int

    def asked(self, at_s: float) -> int:
        """Return the GPUs of the guarantee that jobs ask for at a moment."""
        own = [job for job in self.jobs.values() if job.own and job.team == self.team]
        return min(self.guarantee, sum(job.asks_s[0] <= at_s < job.asks_s[1] for job in own))

    def free(self, moment: Moment) -> int:
        return self.capacity - sum(moment.of_type(self.gpu_type).values())

    def waits(self, moment: Moment) -> bool:
        """Return whether a job of another team waits that may have a free GPU of the type."""
        for id, job in self.jobs.items():
            there = job.asks_s[0] <= moment.time_s < job.asks_s[1] and not moment.held.get(id)
            if there and job.team != self.team and self.gpu_type in job.gpu_types:
                cap = self.teams.teams[job.team].cap.get(self.gpu_type)
                if cap is None or _of_team(moment, self.jobs, job.team, self.gpu_type) < cap:
                    return True
        return False

    def lending(self, found: Found, since_s: float) -> None:
        """Note how long GPUs that are idle stay so, and how many are given to others."""
        began_s: float | None = None
        for before, moment in pairwise(self.log):
            if moment.time_s < since_s:
                continue
            asked = self.asked(moment.time_s)
            kept = max(asked - _of_team(moment, self.jobs, self.team, self.gpu_type), 0)
            idle = asked < self.guarantee and self.free(moment) > kept and self.waits(moment)
            if idle and began_s is None:
                began_s = moment.time_s
            elif not idle and began_s is not None:
                found.lent_s.append(moment.time_s - began_s)
                began_s = None
            if self.asked(before.time_s) < self.guarantee:
                found.lent += max(self.borrowed(moment) - self.borrowed(before), 0)

    def borrowed(self, moment: Moment) -> int:
        """Return the GPUs of the guarantee that other teams hold."""
        others = sum(moment.of_type(self.gpu_type).values()) - _of_team(
            moment, self.jobs, self.team, self.gpu_type
        )
        return max(others - (self.capacity - self.guarantee), 0)

    def coming_back(self, found: Found) -> None:
        """Note how long the guarantee lacked what was asked for, and who gave way."""
        began_s, due_s, gave = None, 0.0, set[str]()
        for before, moment in pairwise(self.log):
            lacks = self.asked(moment.time_s) - _of_team(moment, self.jobs, self.team, self.gpu_type)
            if began_s is not None:
                gave |= {job for job in before.given if self.gives_way(job, before, moment)}
            if lacks > 0 and began_s is None:
                began_s, due_s = moment.time_s, self.due_s(moment, lacks)
            elif lacks <= 0 and began_s is not None:
                found.waited_s.append(moment.time_s - began_s)
                found.back_s.append(max(moment.time_s - max(began_s, due_s), 0.0))
                found.reclaimed += sorted(gave)
                began_s, gave = None, set()
        if began_s is not None:
            raise SystemExit(f"{self.team} never had the {self.gpu_type} that it asked for")

    def gives_way(self, job: str, before: Moment, moment: Moment) -> bool:
        """Return whether a borrower that goes on was told to use fewer GPUs of the type, or others."""
        mine = self.jobs[job]
        fewer = moment.told(job, self.gpu_type) < before.told(job, self.gpu_type)
        return fewer and mine.team != self.team and moment.time_s < mine.asks_s[1]

    def due_s(self, moment: Moment, lacks: int) -> float:
        """Return when leases of enough borrowers end for what a guarantee lacks."""
        due_s, lacks = moment.time_s, lacks - self.free(moment)
        borrowers = [job for job in moment.of_type(self.gpu_type) if self.jobs[job].team != self.team]
        for job in sorted(borrowers, key=lambda job: moment.given[job].since_s):
            if lacks > 0:
                due_s = moment.given[job].since_s + self.teams.lease_s
                lacks -= moment.held[job][self.gpu_type]
        return due_s
