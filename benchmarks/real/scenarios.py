"""What happens to a job while it trains. Each scenario takes a group of processes from start to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coadapt.core.batch_plan import BatchPlan
from coadapt.executor.protocol.messages import Broken, Left, Ready, Stop
from coadapt.executor.rehearsal.group import Crash, Member
from coadapt.executor.training.sessions.step_course import CANNOT_DO_AGAIN

from .group import HeldGroup

Members = list[Member]


@dataclass(frozen=True)
class Scenario:
    """`drive` ends when the script has ended; it returns the members that came to the script's end.

    `replays`: batches that were lost are given again, so that some samples are seen more than once.
    """

    drive: Callable[[HeldGroup], Members]
    gates: Sequence[int] = ()
    replays: bool = False
    training: dict[str, Any] = field(default_factory=dict)


def undisturbed(job: HeldGroup) -> Members:
    job.join(job.start(1))
    return job.end()


def grow(job: HeldGroup) -> Members:
    """Grow to two replicas, and to three, which no batch of 16 is divided by."""
    a, b, c = job.start(3)
    job.join([a])
    with job.held(5):
        job.change([a, b])
    job.changed()
    with job.held(13):
        job.change([a, b, c])
    job.changed()
    return job.end()


def shrink(job: HeldGroup) -> Members:
    a, b = job.start(2)
    job.join([a, b])
    with job.held(11):
        job.change([a])
    job.changed()
    return job.end()


def move(job: HeldGroup) -> Members:
    """Move from one process to another that overlaps with it for a while; rank 0 leaves."""
    a, b = job.start(2)
    job.join([a])
    with job.held(5):
        job.change([a, b])
    job.changed()
    with job.held(12):
        job.change([b])
    job.changed()
    return job.end()


def accumulate(job: HeldGroup) -> Members:
    """Give each batch of the script in two passes of one replica."""
    (a,) = job.start(1)
    job.join([a], _passes(a, replicas=1, passes=2))
    return job.end()


def lose(job: HeldGroup) -> Members:
    """Kill a replica; the other one goes on alone, and another one joins it."""
    a, b, c = job.start(3)
    job.join([a, b])
    with job.held(5):
        job.lose(b)
        job.abort()
    a = _survivor(job, a)
    job.join([a])
    with job.held(12):
        job.change([a, c])
    job.changed()
    return job.end()


def restart(job: HeldGroup) -> Members:
    """Stop with a checkpoint in the midst of an epoch; a process that knows nothing goes on."""
    a, b = job.start(2)
    job.join([a])
    with job.held(5):
        _stop(job)
    _left(job, a)
    job.join([b])
    return job.end()


def crash(job: HeldGroup) -> Members:
    """Lose all replicas at once; what came after the last checkpoint is trained again."""
    a, b, c = job.start(3)
    job.join([a, b])
    with job.held(13):
        job.lose(b)
        job.lose(a)
    job.join([c])
    return job.end()


def chain(job: HeldGroup) -> Members:
    """Grow, move, lose rank 0, use two passes, stop, start again, and use two passes with a newcomer as rank 0."""
    a, b, c, d, e = job.start(5)
    job.join([a])
    with job.held(4):
        job.change([a, b])
    job.changed()
    with job.held(9):
        job.change([b, c])
    job.changed()
    with job.held(14):
        job.lose(b)
        job.abort()
    c = _survivor(job, c)
    job.join([c], _passes(c, replicas=1, passes=2))
    with job.held(18):
        _stop(job)
    _left(job, c)
    job.join([d])
    with job.held(23):
        job.change([e, d], _passes(e, replicas=2, passes=2))
    job.changed()
    return job.end()


SCENARIOS: dict[str, Scenario] = {
    "one": Scenario(undisturbed),
    "grow": Scenario(grow, (5, 13)),
    "shrink": Scenario(shrink, (11,)),
    "move": Scenario(move, (5, 12)),
    "accumulate": Scenario(accumulate),
    "lose": Scenario(lose, (5, 12), replays=True),
    "restart": Scenario(restart, (5,)),
    "crash": Scenario(crash, (13,), replays=True),
    "chain": Scenario(chain, (4, 9, 14, 18, 23), replays=True),
}


def _passes(member: Member, replicas: int, passes: int) -> BatchPlan:
    """Return a plan of the script's batch, in fewer passes where its batches cannot be divided."""
    ready = member.wait(Ready)
    size = ready.initial_batch_size
    one_pass = any(report.habits and report.habits.one_pass for report in member.group.reports())  # type: ignore[attr-defined]
    passes = 1 if one_pass else max(1, min(passes, size // replicas // ready.least_local_bsz))
    return BatchPlan(-(-size // (replicas * passes)), passes - 1, size)


def _survivor(job: HeldGroup, member: Member) -> Member:
    """Return the member that goes on where the group lost one: a new one where a loop cannot do a batch again."""
    generation = job.generation
    try:
        member.wait(Broken, lambda event: event.generation == generation)
    except Crash as crash:
        if CANNOT_DO_AGAIN not in str(crash):
            raise
        job.killed.add(member)
        (member,) = job.start(1)
    return member


def _stop(job: HeldGroup) -> None:
    for member in job.group:
        member.send(Stop(save=True))


def _left(job: HeldGroup, *members: Member) -> None:
    for member in members:
        member.wait(Left)
    job.group = []
