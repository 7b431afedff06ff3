"""What a policy may be told of the jobs that teams will submit."""

from __future__ import annotations

from typing import Protocol


class Foresight(Protocol):
    """Answers about the time after a round."""

    def new_load(self, team: str, horizon_s: float) -> float:
        """Return the GPUs that a team's new jobs will ask for before `horizon_s` have passed; inf: unknown."""
