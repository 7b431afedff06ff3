"""What is true of the jobs of a trace; what policies are told of them stands apart (`told`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ...core.job import JobSpec
from ...core.placement import Placement
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .told import Told


@dataclass(frozen=True)
class Motion:
    """How a job moves until something changes: progress per second, and where its rate may change."""

    rate: float
    boundary: float


class World(Protocol):
    """The truth of every job, by its position in the workload. Progress is in the world's own unit."""

    workload: Workload

    @property
    def told(self) -> Told:
        """What policies are told of the same jobs."""

    def spec(self, job: int) -> JobSpec:
        """What the job's user wrote."""

    def pause_s(self, job: int, old: Placement | None, new: Placement, left_s: float, first: bool) -> float:
        """Seconds the job holds its new GPUs without progress.

        `old`: what it runs on now, None where it has nothing; `first`: it never had anything. `left_s`: what is
        left of an earlier pause.
        """

    def keeps_s(self, job: int) -> float | None:
        """How long the job holds the GPUs that it leaves once it has those it gets: its processes start there.

        None: GPUs change hands at once, as far as this job is concerned.
        """

    def moves(self, job: int, placement: Placement, progress: float) -> Motion:
        """The motion from here, after a change of placement and at the start of a round."""

    def crosses(self, jobs: Ints, placements: Sequence[Placement], progress: Floats) -> tuple[Floats, Floats]:
        """Rates and boundaries of jobs that are at a boundary, from there on.

        Rate nan: it has ended; 0: it has nothing to do until the next round, and holds nothing meanwhile.
        """

    def ends(self, jobs: Ints) -> Floats:
        """Progress with which each ends."""

    def trained(self, job: int, placement: Placement) -> None:
        """The job made progress on its placement since the last round: it may learn from it."""

    @property
    def learns(self) -> bool:
        """Whether jobs learn while they train, and may then move otherwise where they are (`trained`, `moves`)."""
