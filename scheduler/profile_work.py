"""A profile run as work of its own: what a round places beside jobs. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class ProfileWork:
    """Measuring one job on one GPU type."""

    job_id: str
    gpu_type: str

    @property
    def id(self) -> str:
        """The name that policies and the launcher know it by. No job has a slash in its name; nobody parses it."""
        return f"{self.job_id}/profile/{self.gpu_type}"
