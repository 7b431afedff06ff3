"""What is known of a job when it is submitted, and what became of it: what lengths are learned from."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

USE = 4  # numbers that tell what a job uses of its GPUs


@dataclass(frozen=True)
class SubmittedJob:
    """A job as far as its submission tells. How and when it ends is no part of that.

    name: what its owner called it.
    pool: the set of nodes that it runs in; "": none.
    cpus: of all its GPUs together; 0: not known.
    submitted_s: seconds since 1970.
    use: what it uses of its GPUs, as a short run of it showed: (features of `affinity.uses`); nan where nothing is
        known, and () before any run.
    team: whose guarantee it counts for; "": of no team.
    tag: of the experiment that it belongs to; "": it names none.

    Raises:
        ValueError: in one sentence, for counts, times and usage that cannot be.
    """

    id: str
    owner: str
    name: str
    pool: str
    gpus: int
    cpus: float
    submitted_s: float
    use: tuple[float, ...] = ()
    team: str = ""
    tag: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("gpus", "cpus", "submitted_s") and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{field.name}: {value} is not accepted, must be finite and 0 or more")
        if len(self.use) not in (0, USE) or any(value < 0 or value == math.inf for value in self.use):
            raise ValueError(f"use: {self.use} is not accepted, must be {USE} numbers of 0 or more, or none")


@dataclass(frozen=True)
class StartedJob:
    """A job that got GPUs for the first time. started_s: seconds since 1970. Raises ValueError as `EndedJob`."""

    job: SubmittedJob
    started_s: float

    def __post_init__(self) -> None:
        if not self.job.submitted_s <= self.started_s < math.inf:
            raise ValueError(
                f"started_s: {self.started_s} of job {self.job.id} is not accepted, must be finite and "
                f"{self.job.submitted_s} or later, when it was submitted"
            )


@dataclass(frozen=True)
class EndedJob:
    """A job that has ended, whatever its end was.

    ended_s: seconds since 1970. trained_s: seconds with GPUs.

    Raises:
        ValueError: in one sentence, for a time that cannot be, and for an end before the submission.
    """

    job: SubmittedJob
    ended_s: float
    trained_s: float

    def __post_init__(self) -> None:
        for name in ("ended_s", "trained_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name}: {value} is not accepted, must be finite and 0 or more")
        if self.ended_s < self.job.submitted_s:
            raise ValueError(
                f"ended_s: {self.ended_s} of job {self.job.id} is not accepted, "
                f"must be {self.job.submitted_s} or later, when it was submitted"
            )
