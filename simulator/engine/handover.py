"""GPUs that jobs are leaving: others train on them once they are free, as in the live cluster. Pure.

A job trains where it is until its processes elsewhere have started, and holds both meanwhile. Jobs that get
what it leaves wait. If jobs wait for each other in a circle, one whose GPUs are needed stops first
(`scheduler/launcher.py`). A job that is sent back to where it still trains just goes on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Gpus = Mapping[str, int]  # by node; plans of the simulator name no GPUs


@dataclass(frozen=True)
class Move:
    """A job's change of GPUs from `has` to `gets`.

    `trains`: the job trains on what it has; False: it has not begun there.
    `keeps_s`: seconds for which it keeps its old GPUs once it has the new ones.
    """

    job: int
    has: Gpus
    gets: Gpus
    trains: bool
    keeps_s: float


@dataclass(frozen=True)
class Wait:
    """How long a job waits for what it gets.

    `trains`: it trains meanwhile.
    `returns`: it is sent back to GPUs that it has not left yet.
    """

    seconds: float = 0.0
    trains: bool = False
    returns: bool = False


@dataclass(frozen=True)
class _Span:
    """GPUs of a job that plans do not show.

    In `Handovers.held` they are held until `at_s`; in `Handovers.coming`, from `at_s` on.
    """

    at_s: float
    job: int
    gpus: Gpus


@dataclass
class _Waiting:
    """A move that is not served yet.

    `joins`: what it needs beside what it has, GPUs by node.
    `leaves`: what it leaves after that, GPUs by node.
    """

    move: Move
    joins: Counter[str]
    leaves: Counter[str]
    returns: bool
    trains: bool


@dataclass
class Handovers:
    """The GPUs that jobs are leaving and waiting for.

    `held`: what jobs are leaving, and until when.
    `coming`: what jobs wait for, and from when they have it.
    """

    held: list[_Span] = field(default_factory=list)
    coming: list[_Span] = field(default_factory=list)

    def forget(self, job: int) -> None:
        """Drop a job that has ended or stopped; it holds nothing and waits for nothing."""
        if self.held or self.coming:
            self.held = [span for span in self.held if span.job != job]
            self.coming = [span for span in self.coming if span.job != job]

    def waits(self, moves: Sequence[Move], free: Gpus, now: float) -> dict[int, Wait]:
        """Return the wait of each job, for moves in the order in which jobs are served.

        `free`: GPUs by node, without those that jobs that do not move have in the plan.
        """
        self.held = [span for span in self.held if span.at_s > now]
        self.coming = [span for span in self.coming if span.at_s > now]
        waiting = [self._waiting(move) for move in moves]
        room = Counter(free)  # below 0: GPUs that are claimed and not released yet, so no `Ledger` fits
        for each in waiting:
            self._take_back(each.move)
            room.subtract(each.leaves)
            room.subtract(Counter(each.move.gets) - each.joins)
        for span in self.held:
            room.subtract(span.gpus)
        for span in self.coming:
            room.update(span.gpus)
        found: dict[int, Wait] = {}
        clock = now
        while waiting:
            ready = next((each for each in waiting if _fits(each.joins, room)), None)
            if ready is not None:
                waiting.remove(ready)
                room.subtract(ready.joins)
                found[ready.move.job] = Wait(clock - now, ready.trains, ready.returns)
                if ready.joins and clock > now:
                    self.coming.append(_Span(clock, ready.move.job, ready.joins))
                if ready.joins and ready.move.keeps_s > 0:
                    self.held.append(_Span(clock + ready.move.keeps_s, ready.move.job, ready.leaves))
                else:
                    room.update(ready.leaves)
                continue
            blocker = self._blocker(waiting, room, clock)
            if blocker is not None:
                room.update(blocker.leaves)
                blocker.leaves, blocker.trains = Counter(), False
                continue
            later = [span.at_s for span in (*self.held, *self.coming) if span.at_s > clock]
            if not later:  # a node has failed, so what they wait for will not come
                found.update({each.move.job: Wait() for each in waiting})
                break
            self._pass(room, clock, min(later))
            clock = min(later)
        return found

    def _pass(self, room: Counter[str], after_s: float, until_s: float) -> None:
        """Update the free GPUs by what is left and what is received between two times."""
        for span in self.held:
            if after_s < span.at_s <= until_s:
                room.update(span.gpus)
        for span in self.coming:
            if after_s < span.at_s <= until_s:
                room.subtract(span.gpus)

    def _waiting(self, move: Move) -> _Waiting:
        held, coming = self._of(self.held, move.job), self._of(self.coming, move.job)
        gets, begun = Counter(move.gets), Counter(move.has) - coming
        joins = gets - begun - held
        if held:  # it still trains on what it was leaving, and not where it was to go
            return _Waiting(move, joins, Counter(), returns=not joins and not gets - held, trains=True)
        return _Waiting(move, joins, begun - gets if move.trains else Counter(), False, move.trains)

    def _take_back(self, move: Move) -> None:
        """Cancel what a job waits for, and do not count as leaving what it gets again."""
        self.coming = [span for span in self.coming if span.job != move.job]
        gets, held = Counter(move.gets), []
        for span in self.held:
            gpus = Counter(span.gpus)
            if span.job == move.job:
                gpus, gets = gpus - gets, gets - gpus
            if gpus:
                held.append(_Span(span.at_s, span.job, gpus))
        self.held = held

    @staticmethod
    def _of(spans: Sequence[_Span], job: int) -> Counter[str]:
        total: Counter[str] = Counter()
        for span in spans:
            if span.job == job:
                total.update(span.gpus)
        return total

    def _blocker(self, waiting: Sequence[_Waiting], room: Counter[str], clock: float) -> _Waiting | None:
        """Return the first job whose GPUs are needed although no release on its way frees enough.

        No move after such a release would help either. Return None if there is no such job.
        """
        soon, left = room.copy(), list(waiting)
        self._pass(soon, clock, math.inf)
        while (goes := next((each for each in left if _fits(each.joins, soon)), None)) is not None:
            left.remove(goes)
            soon.subtract(goes.joins)
            soon.update(goes.leaves)
        short = {node for each in left for node, gpus in each.joins.items() if soon[node] < gpus}
        return next((each for each in waiting if short & each.leaves.keys()), None)


def _fits(joins: Gpus, room: Gpus) -> bool:
    return all(room.get(node, 0) >= gpus for node, gpus in joins.items())
