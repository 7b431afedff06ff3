"""What a policy may be told of the jobs that teams will submit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ForeseenJob:
    """A job of the past or the future that is known exactly. submitted_s: on the clock of `Round.now`."""

    id: str
    team: str
    submitted_s: float
    duration_s: float
    gpus: int


class Foresight(Protocol):
    """Answers about the time after a round."""

    def jobs(self) -> tuple[ForeseenJob, ...] | None:
        """Return all jobs that ever come, by submission, the past ones too; None: nobody knows them."""

    def new_load(self, team: str, horizon_s: float) -> float:
        """Return the GPUs that a team's new jobs will ask for before `horizon_s` have passed; inf: unknown."""
