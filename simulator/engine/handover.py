"""What jobs are leaving: others train on it once it is free, as in the live cluster. Pure.

A job trains where it is until its processes elsewhere have started, and holds both meanwhile. Jobs that get
what it leaves wait, for GPUs as for CPUs and memory. If jobs wait for each other in a circle, one whose resources
are needed stops first (`scheduler/rounds/launcher.py`). A job that is sent back to where it still trains just
goes on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...core.placement import Placement
from ...core.resources import NOTHING, Amounts, Resources, add, short_of

ANY = 0  # in place of a GPU: how many of a node, since plans of the simulator name none


def counted(placement: Placement) -> Amounts:
    """Return what a placement holds, with its GPUs counted."""
    return {
        share.node_id: Resources({ANY: share.gpus * share.share}, share.cpus, share.memory_gib)
        for share in placement.shares
    }


@dataclass(frozen=True)
class Move:
    """A job's change of resources from `has` to `gets`.

    `trains`: the job trains on what it has; False: it has not begun there.
    `keeps_s`: seconds for which it keeps its old GPUs once it has the new ones.
    """

    job: int
    has: Amounts
    gets: Amounts
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
    """Resources of a job that plans do not show.

    In `Handovers.held` they are held until `at_s`; in `Handovers.coming`, from `at_s` on.
    """

    at_s: float
    job: int
    amounts: Amounts


@dataclass
class _Waiting:
    """A move that is not served yet.

    `joins`: what it needs beside what it has.
    `leaves`: what it leaves after that.
    """

    move: Move
    joins: Amounts
    leaves: Amounts
    returns: bool
    trains: bool


@dataclass
class Handovers:
    """The resources that jobs are leaving and waiting for.

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

    def waits(self, moves: Sequence[Move], free: Amounts, now: float) -> dict[int, Wait]:
        """Return the wait of each job, for moves in the order in which jobs are served.

        `free`: without what jobs that do not move have in the plan; nodes that no move gets may be left out.
        """
        self.held = [span for span in self.held if span.at_s > now]
        self.coming = [span for span in self.coming if span.at_s > now]
        waiting = [self._waiting(move) for move in moves]
        room = dict(free)  # below 0: what is claimed and not released yet, so no `Ledger` fits
        for each in waiting:
            self._take_back(each.move)
            add(room, each.leaves, -1.0)
            add(room, _beyond(each.move.gets, each.joins), -1.0)
        for span in self.held:
            add(room, span.amounts, -1.0)
        for span in self.coming:
            add(room, span.amounts)
        found: dict[int, Wait] = {}
        clock = now
        while waiting:
            ready = next((each for each in waiting if not short_of(each.joins, room)), None)
            if ready is not None:
                waiting.remove(ready)
                add(room, ready.joins, -1.0)
                found[ready.move.job] = Wait(clock - now, ready.trains, ready.returns)
                if ready.joins and clock > now:
                    self.coming.append(_Span(clock, ready.move.job, ready.joins))
                if _starts(ready.joins) and (until_s := clock + ready.move.keeps_s) > clock:
                    self.held.append(_Span(until_s, ready.move.job, ready.leaves))
                else:
                    add(room, ready.leaves)
                continue
            blocker = self._blocker(waiting, room, clock)
            if blocker is not None:
                add(room, blocker.leaves)
                blocker.leaves, blocker.trains = {}, False
                continue
            later = [span.at_s for span in (*self.held, *self.coming) if span.at_s > clock]
            if not later:  # a node has failed, so what they wait for will not come
                found.update({each.move.job: Wait() for each in waiting})
                break
            self._pass(room, clock, min(later))
            clock = min(later)
        return found

    def _pass(self, room: dict[str, Resources], after_s: float, until_s: float) -> None:
        """Update what is free by what is left and what is received between two times."""
        for span in self.held:
            if after_s < span.at_s <= until_s:
                add(room, span.amounts)
        for span in self.coming:
            if after_s < span.at_s <= until_s:
                add(room, span.amounts, -1.0)

    def _waiting(self, move: Move) -> _Waiting:
        held, coming = self._of(self.held, move.job), self._of(self.coming, move.job)
        begun = _beyond(move.has, coming)
        joins = _beyond(_beyond(move.gets, begun), held)
        if held:  # it still trains on what it was leaving, and not where it was to go
            returns = not joins and not _beyond(move.gets, held)
            return _Waiting(move, joins, {}, returns, trains=True)
        return _Waiting(move, joins, _beyond(begun, move.gets) if move.trains else {}, False, move.trains)

    def _take_back(self, move: Move) -> None:
        """Cancel what a job waits for, and do not count as leaving what it gets again."""
        self.coming = [span for span in self.coming if span.job != move.job]
        gets, held = move.gets, []
        for span in self.held:
            amounts = span.amounts
            if span.job == move.job:
                amounts, gets = _beyond(amounts, gets), _beyond(gets, amounts)
            if amounts:
                held.append(_Span(span.at_s, span.job, amounts))
        self.held = held

    @staticmethod
    def _of(spans: Sequence[_Span], job: int) -> Amounts:
        total: dict[str, Resources] = {}
        for span in spans:
            if span.job == job:
                add(total, span.amounts)
        return total

    def _blocker(self, waiting: Sequence[_Waiting], room: Amounts, clock: float) -> _Waiting | None:
        """Return the first job that leaves what is needed although no release on its way frees enough of it.

        No move after such a release would help either. Return None if there is no such job.
        """
        soon, left = dict(room), list(waiting)
        self._pass(soon, clock, math.inf)
        while (goes := next((each for each in left if not short_of(each.joins, soon)), None)) is not None:
            left.remove(goes)
            add(soon, goes.joins, -1.0)
            add(soon, goes.leaves)
        lacks = {lack for each in left for lack in short_of(each.joins, soon)}
        return next((each for each in waiting if lacks & short_of(each.leaves, {})), None)


def _beyond(amounts: Amounts, others: Amounts) -> Amounts:
    """Return what amounts have more of than others, by node; nodes with nothing more are left out."""
    more = {node: amount.beyond(others.get(node, NOTHING)) for node, amount in amounts.items()}
    return {node: amount for node, amount in more.items() if amount != NOTHING}


def _starts(joins: Amounts) -> bool:
    """Return whether processes start on new GPUs; more CPUs or memory start none."""
    return any(amount.devices for amount in joins.values())
