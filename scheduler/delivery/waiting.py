"""What waits to be delivered, and when it is tried: in order per job, and each webhook by itself. Pure.

Only the oldest event of a job is under way to a webhook; the next one follows once it is acknowledged or given up.
A webhook that does not answer is asked ever more seldom, and with one event at a time.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

FIRST_S, MOST_S = 1.0, 3600.0  # between two tries of an event
REST_AFTER, MOST_REST_S = 5, 60.0  # failures in a row after which a webhook rests, and for how long at most
WINDOW = 32  # events of different jobs that are under way to one webhook


def pause_s(tries: int, dice: random.Random) -> float:
    """Return how long after a failed try the next one is: about twice as long each time."""
    return min(FIRST_S * 2.0 ** min(tries - 1, 30), MOST_S) * dice.uniform(0.5, 1.5)


def rest_s(rests: int, dice: random.Random) -> float:
    """Return how long a webhook rests for the n-th time in a row, counted from 1."""
    return min(2.0 ** min(rests - 1, 30), MOST_REST_S) * dice.uniform(0.5, 1.5)


@dataclass
class Delivery:
    """One event on its way to one webhook. Seconds of the steady clock."""

    webhook: int
    event: int
    job: str
    at_s: float
    due_s: float = 0.0
    tries: int = 0

    @property
    def id(self) -> str:
        """Return by which the receiver knows it again, in each try."""
        return f"evt_{self.event}_{self.webhook}"


@dataclass
class Line:
    """What waits for one webhook, and how it has been lately."""

    jobs: dict[str, deque[Delivery]] = field(default_factory=dict)
    heads: list[tuple[float, int, str]] = field(default_factory=list)  # a heap: due, event, job
    flying: set[str] = field(default_factory=set)
    window: int = WINDOW
    failures: int = 0  # in a row
    rests: int = 0  # in a row
    rests_until_s: float = 0.0
    count: int = 0


class Waiting:
    """Everything that waits. Its caller keeps it in the store."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._lines: dict[int, Line] = {}
        self._flying: dict[str, Delivery] = {}

    def add(self, delivery: Delivery) -> None:
        """Let one more wait. Those of a job come in the order of their events."""
        line = self._lines.setdefault(delivery.webhook, Line())
        of_job = line.jobs.setdefault(delivery.job, deque())
        of_job.append(delivery)
        line.count += 1
        if len(of_job) == 1:
            heapq.heappush(line.heads, (delivery.due_s, delivery.event, delivery.job))

    def due(self, now: float) -> list[Delivery]:
        """Return what is to be sent now. It is under way from here on."""
        found = []
        for line in self._lines.values():
            if line.rests_until_s > now:
                continue
            while line.heads and line.heads[0][0] <= now and len(line.flying) < line.window:
                _, _, job = heapq.heappop(line.heads)
                found.append(self._begin(line, line.jobs[job][0]))
        return found

    def taken_up(self, ids: Iterable[str]) -> None:
        """Take note that some are under way already, as an earlier process has sent them."""
        known = set(ids)
        for line in self._lines.values():
            for of_job in line.jobs.values():
                if of_job[0].id in known and not self._flies(of_job[0]):
                    self._begin(line, of_job[0])
            self._order(line)

    def flying(self, sent_id: str) -> Delivery | None:
        """Return what is under way by an id."""
        return self._flying.get(sent_id)

    def flying_ids(self) -> set[str]:
        """Return the ids of what is under way."""
        return set(self._flying)

    def accepted(self, sent_id: str, now: float) -> Delivery | None:
        """Take note that a receiver has one. Return it; None: it is not waited for."""
        if (delivery := self._flying.get(sent_id)) is None:
            return None
        line = self._lines[delivery.webhook]
        away = line.rests > 0
        line.failures, line.rests, line.rests_until_s = 0, 0, 0.0
        line.window = min(2 * line.window, WINDOW)
        self._end(line, delivery)
        if away:  # it is back, so nothing waits any longer for its turn
            line.heads = [(min(due_s, now), event, job) for due_s, event, job in line.heads]
            heapq.heapify(line.heads)
        return delivery

    def failed(self, sent_id: str, now: float, after_s: float = 0.0) -> Delivery | None:
        """Take note of a try in vain. Return what waits for the next one.

        Args:
            after_s: for so long at least the receiver asks to be left alone.
        """
        if (delivery := self._flying.pop(sent_id, None)) is None:
            return None
        line = self._lines[delivery.webhook]
        line.flying.discard(sent_id)
        line.failures += 1
        if line.failures >= REST_AFTER and now >= line.rests_until_s:  # what was under way by then counts once
            line.rests, line.window = line.rests + 1, 1
            line.rests_until_s = now + rest_s(line.rests, self._dice)
        line.rests_until_s = max(line.rests_until_s, now + after_s if after_s else 0.0)
        delivery.tries += 1
        delivery.due_s = now + pause_s(delivery.tries, self._dice)
        heapq.heappush(line.heads, (delivery.due_s, delivery.event, delivery.job))
        return delivery

    def give_up(self, before_s: float, most: int) -> list[Delivery]:
        """Give up what has waited since before a moment, and the oldest of what is too much. Return it.

        What is under way is not given up: its receiver may have it.
        """
        gone: list[Delivery] = []
        for line in self._lines.values():
            before = len(gone)
            for of_job in list(line.jobs.values()):
                while of_job and of_job[0].at_s < before_s and not self._flies(of_job[0]):
                    gone.append(self._drop(line, of_job))
            oldest = [(of_job[0].event, job) for job, of_job in line.jobs.items() if not self._flies(of_job[0])]
            heapq.heapify(oldest)
            while line.count > most and oldest:
                _, job = heapq.heappop(oldest)
                of_job = line.jobs[job]
                gone.append(self._drop(line, of_job))
                if of_job:
                    heapq.heappush(oldest, (of_job[0].event, job))
            if len(gone) > before:
                self._order(line)
        return gone

    def forget(self, webhook: int) -> None:
        """Let nothing wait for a webhook that was removed."""
        line = self._lines.pop(webhook, None)
        for sent_id in line.flying if line is not None else ():
            self._flying.pop(sent_id, None)

    def count(self, webhook: int | None = None) -> int:
        """Return how many wait, for one webhook or for all."""
        if webhook is not None:
            return self._lines[webhook].count if webhook in self._lines else 0
        return sum(line.count for line in self._lines.values())

    def oldest_s(self) -> float | None:
        """Return since when the oldest waits; None: nothing does."""
        heads = [of_job[0].at_s for line in self._lines.values() for of_job in line.jobs.values()]
        return min(heads, default=None)

    def next_s(self) -> float | None:
        """Return when something is due; None: only once something else has happened."""
        times = [
            max(line.heads[0][0], line.rests_until_s)
            for line in self._lines.values()
            if line.heads and len(line.flying) < line.window
        ]
        return min(times, default=None)

    @property
    def under_way(self) -> int:
        """Return how many are under way."""
        return len(self._flying)

    def _flies(self, delivery: Delivery) -> bool:
        return delivery.id in self._flying

    def _begin(self, line: Line, delivery: Delivery) -> Delivery:
        line.flying.add(delivery.id)
        self._flying[delivery.id] = delivery
        return delivery

    def _end(self, line: Line, delivery: Delivery) -> None:
        self._flying.pop(delivery.id, None)
        line.flying.discard(delivery.id)
        of_job = line.jobs[delivery.job]
        of_job.popleft()
        line.count -= 1
        if of_job:
            heapq.heappush(line.heads, (of_job[0].due_s, of_job[0].event, delivery.job))
        else:
            del line.jobs[delivery.job]

    def _drop(self, line: Line, of_job: deque[Delivery]) -> Delivery:
        gone = of_job.popleft()
        line.count -= 1
        if not of_job:
            del line.jobs[gone.job]
        return gone

    def _order(self, line: Line) -> None:
        """Put the oldest of each job in the order in which they are due."""
        heads = [of_job[0] for of_job in line.jobs.values() if not self._flies(of_job[0])]
        line.heads = [(one.due_s, one.event, one.job) for one in heads]
        heapq.heapify(line.heads)
