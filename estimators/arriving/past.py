"""What is known of the jobs of a team by a moment, as sorted times. It grows as facts come in order of time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TeamPast:
    """The jobs of one team. All times are seconds since 1970.

    submitted_s, ended_s: (jobs,) of each job, ascending.
    began_s, due_s, left_s: (runs,) when a job got GPUs, when it was then expected to end, and when it did; inf: it
        has not ended.
    """

    submitted_s: Floats
    ended_s: Floats
    began_s: Floats
    due_s: Floats
    left_s: Floats

    def until(self, now: float) -> TeamPast:
        """Return what of it was known at a moment."""
        begun = self.began_s <= now
        left_s = self.left_s[begun]
        return TeamPast(
            self.submitted_s[self.submitted_s <= now],
            self.ended_s[self.ended_s <= now],
            self.began_s[begun],
            self.due_s[begun],
            np.where(left_s <= now, left_s, np.inf),
        )


class Times:
    """Times that grow at their end and are forgotten at their front.

    A view of them stays as it is, as nothing is written where it looks.
    """

    def __init__(self) -> None:
        self._values, self._count = np.empty(64), 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> Floats:
        """The times, ascending."""
        return self._values[: self._count]

    def add(self, at_s: float) -> None:
        """Add a time. One before the newest counts as of the same moment."""
        if self._count == len(self._values):
            self._move(0)
        self._values[self._count] = max(at_s, self._values[self._count - 1]) if self._count else at_s
        self._count += 1

    def forget(self, before_s: float) -> None:
        """Drop times before one, as soon as they are half of all."""
        gone = int(np.searchsorted(self.values, before_s))
        if gone > 64 and 2 * gone > self._count:
            self._move(gone)

    def _move(self, gone: int) -> None:
        kept = self.values[gone:]
        self._values = np.empty(max(2 * len(kept), 64))
        self._values[: len(kept)] = kept
        self._count = len(kept)


@dataclass
class TeamJobs:
    """Collects the past of one team from facts in order of time."""

    submitted: Times = field(default_factory=Times)
    ended: Times = field(default_factory=Times)
    _running: dict[str, tuple[float, float]] = field(default_factory=dict)  # job -> when it began and is due
    _ran: list[tuple[float, float, float]] = field(default_factory=list)  # when it began, was due, and ended

    def began(self, job: str, at_s: float, due_s: float) -> None:
        """Note that a job got GPUs for the first time, and when it is expected to end."""
        self._running[job] = at_s, due_s

    def over(self, job: str, at_s: float) -> None:
        """Note that a job has ended."""
        self.ended.add(at_s)
        if (run := self._running.pop(job, None)) is not None:
            self._ran.append((*run, at_s))

    def forget(self, before_s: float) -> None:
        """Drop what was over before a time."""
        self.submitted.forget(before_s)
        self.ended.forget(before_s)
        if len(self._ran) > 64 and self._ran[len(self._ran) // 2][2] < before_s:
            self._ran = [run for run in self._ran if run[2] >= before_s]

    def past(self, since_s: float = -np.inf) -> TeamPast:
        """Return what is known now, of runs those that go on or ended after `since_s`. It stays as it is."""
        runs = [(began_s, due_s, np.inf) for began_s, due_s in self._running.values()]
        for run in reversed(self._ran):
            if run[2] < since_s:
                break
            runs.append(run)
        began_s, due_s, left_s = np.array(runs, float).reshape(-1, 3).T
        return TeamPast(self.submitted.values, self.ended.values, began_s, due_s, left_s)
