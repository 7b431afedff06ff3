"""The jobs of a round by what they are: with a deadline that they can meet, or without; pinned, running, known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..contract.round import Round
from ..placing.cells import Shape, levels_of
from ..placing.ledger import is_pinned
from .due import due_of
from .measuring import measured_on_fewer

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
PINNED, MUST, KEPT, MEASURED, BEST_EFFORT, MAY_WAIT = range(-1, 5)  # in which order kinds are served


@dataclass(frozen=True, eq=False)
class Kinds:
    """Columns of the jobs of a round.

    due_s: the next deadline that a job can meet, on the clock of the round; inf: none.
    work_s: seconds that it still needs, where it runs if it does; nan: nobody knows.
    slack_s: how long it could wait; inf: for ever.
    pinned, running: whether it keeps its GPUs in any case, and whether it has some.
    attained_s: how long it has had GPUs. on_fewer: whether it is measured on fewer GPUs than it may ask for.
    """

    due_s: Floats
    work_s: Floats
    slack_s: Floats
    pinned: Mask
    running: Mask
    attained_s: Floats
    gpus: NDArray[np.int64]
    on_fewer: Mask

    @cached_property
    def with_deadline(self) -> list[int]:
        """Positions of jobs that can meet a deadline and may be moved."""
        found: list[int] = np.flatnonzero(np.isfinite(self.due_s) & ~self.pinned).tolist()
        return found

    @cached_property
    def without(self) -> list[int]:
        """Positions of the others that may be moved."""
        found: list[int] = np.flatnonzero(~np.isfinite(self.due_s) & ~self.pinned).tolist()
        return found

    def without_deadlines(self, some: Mask) -> Kinds:
        """Return the jobs of which some have no deadline that counts."""
        return replace(
            self, due_s=np.where(some, np.inf, self.due_s), slack_s=np.where(some, np.inf, self.slack_s)
        )

    def due_by(self, by_s: Mapping[int, float], now: float) -> Kinds:
        """Return the jobs of which some, by position, have another deadline that counts."""
        due_s, slack_s = self.due_s.copy(), self.slack_s.copy()
        for i, at_s in by_s.items():
            due_s[i], slack_s[i] = at_s, at_s - now - float(np.nan_to_num(self.work_s[i]))
        return replace(self, due_s=due_s, slack_s=slack_s)

    def is_measured(self, lease_s: float) -> Mask:
        """Return (jobs,) whether a job has its first lease, as nobody knows how long it takes."""
        found: Mask = np.isnan(self.work_s) & ((self.attained_s < lease_s) | self.on_fewer)
        return found

    def served_by(self, must: Mask, lease_s: float, *, begins: bool = True) -> tuple[NDArray[np.int64], Floats]:
        """Return (jobs,) the kind by which each is served, and its key among its own kind, smallest first.

        Best effort goes by GPU-time left; a job of unknown length is taken to need as much as it had.

        Args:
            begins: whether a lease begins now. Else a job with a deadline keeps the one that it was started for,
                unless others must run.
        """
        best_effort = ~np.isfinite(self.due_s)
        left_s = np.where(np.isnan(self.work_s), np.maximum(self.attained_s, lease_s), self.work_s)
        kind = np.where(best_effort, BEST_EFFORT, MAY_WAIT)
        unknown = np.isnan(self.work_s)  # whether it can meet its deadline, nobody knows
        kind[unknown] = BEST_EFFORT
        kind[self.is_measured(lease_s)] = MEASURED
        if not begins:
            kind[~best_effort & self.running] = KEPT
        kind[must] = MUST
        kind[self.pinned] = PINNED
        key = np.where((best_effort | unknown) & ~must, left_s * self.gpus, self.slack_s)
        return kind.astype(np.int64), np.nan_to_num(key, posinf=1e18)

    def spread(self, round: Round, least_speed: float) -> Mapping[int, Shape]:
        """Return the shape of single GPUs of jobs that may lie apart, by position.

        They must be as fast as `least_speed` there, over their speed together.
        """
        found: dict[int, Shape] = {}
        largest = max(round.cluster.largest_nodes.values(), default=1)
        for i in np.flatnonzero((self.gpus > 1) & ~self.running).tolist():
            gpus = int(self.gpus[i])
            fewest = -(-gpus // largest)
            speeds = [speed for nodes, speed in round.jobs[i].on_nodes.items() if fewest < nodes <= gpus]
            if speeds and min(speeds) >= least_speed:
                found[i] = (gpus, *[0] * (levels_of(largest) - 1))
        return found


def kinds_of(round: Round, *, upper_end: bool = False, longest: bool = False) -> Kinds:
    """Return the kinds of the jobs of a round.

    Args:
        upper_end: whether a deadline is planned with the upper end of the band of a length, if that still holds.
        longest: whether jobs that a metric ends are planned with all of their training.
    """
    columns = round.columns
    work_s, running = columns.remaining_s.copy(), columns.held > 0
    if longest:
        for i, job in enumerate(round.jobs):
            work_s[i] = work_s[i] if job.longest_s is None else job.longest_s
    slower = np.ones(len(work_s))
    largest = max(round.cluster.largest_nodes.values(), default=1)
    for i in np.flatnonzero(running & (columns.gpus > 1)).tolist():
        if (nodes := columns.placements[i].nodes) > -(-int(columns.gpus[i]) // largest):  # it lies apart
            slower[i] = 1.0 / round.jobs[i].on_nodes.get(nodes, 1.0)
    work_s *= slower
    pinned = running & ~columns.preemptible
    for i in np.flatnonzero(pinned).tolist():
        pinned[i] = is_pinned(round.jobs[i], round.cluster)
    due_s = due_of(columns, round.now, work_s).by_s
    if upper_end and columns.high_s is not None:
        high_s = np.fmax(columns.high_s * slower, work_s)
        holds = np.isfinite(due_s) & (due_of(columns, round.now, high_s).by_s == due_s)
        work_s = np.where(holds, high_s, work_s)
    slack_s = due_s - round.now - np.nan_to_num(work_s)
    attained_s = columns.attained_gpu_s / np.maximum(columns.gpus, 1)
    return Kinds(due_s, work_s, slack_s, pinned, running, attained_s, columns.gpus, measured_on_fewer(round))
