"""A profile run as something that a round places beside jobs. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class ProfileWork:
    """Measuring one job on one GPU type."""

    job_id: str
    gpu_type: str

    @property
    def id(self) -> str:
        """The name for policies and the launcher. It has a slash, which no job's name has; nobody parses it."""
        return f"{self.job_id}/profile/{self.gpu_type}"
