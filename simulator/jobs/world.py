"""The truth of the jobs of a trace. What policies are told of them stands apart (`told`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ...core.job import JobSpec
from ...core.placement import Placement
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .told import Told


class BadJob(ValueError):
    """A job of the trace cannot be; the message names it. It is found when a policy first asks for the job."""


@dataclass(frozen=True)
class ProgressRate:
    """How fast a job makes progress until something changes.

    `per_s`: progress per second.
    `boundary`: progress at which the rate may change.
    """

    per_s: float
    boundary: float


class World(Protocol):
    """The truth of every job, by its position in the workload. Progress is in the world's own unit."""

    workload: Workload

    @property
    def told(self) -> Told:
        """What policies are told of the same jobs."""

    def spec(self, job: int) -> JobSpec:
        """Return what the job's user wrote."""

    def pause_s(self, job: int, old: Placement | None, new: Placement, left_s: float, first: bool) -> float:
        """Return the seconds for which the job holds its new GPUs without progress.

        `old`: what it runs on now; None: nothing.
        `left_s`: what is left of an earlier pause.
        `first`: it never had anything.
        """

    def keeps_s(self, job: int) -> float | None:
        """Return how long the job keeps the GPUs that it leaves while its processes start on the new ones, s.

        None: as far as this job is concerned, GPUs change hands at once.
        """

    def moves(self, job: int, placement: Placement, progress: float) -> ProgressRate:
        """Return the rate from here, after a change of placement and at the start of a round."""

    def crosses(self, jobs: Ints, placements: Sequence[Placement], progress: Floats) -> tuple[Floats, Floats]:
        """Return (jobs,) rates and (jobs,) boundaries of jobs that are at a boundary, from there on.

        Rate nan: the job has ended. Rate 0: it has nothing to do until the next round, and holds nothing
        meanwhile.
        """

    def ends(self, jobs: Ints) -> Floats:
        """Return (jobs,) the progress with which each job ends."""

    def trained(self, job: int, placement: Placement) -> None:
        """Let the job learn from its progress on this placement since the last round."""

    @property
    def learns(self) -> bool:
        """Whether jobs learn while they train. Their rate may then change without a new placement."""
