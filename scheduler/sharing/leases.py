"""Leases of jobs: until when a job keeps what it was given before that may be reclaimed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ...core.placement import Placement


@dataclass
class JobLeases:
    """The lease of each job that holds GPUs. It starts when the job is given GPUs, more GPUs or another type.

    lease_s: how long a lease lasts.
    """

    lease_s: float
    _since: dict[str, tuple[str, int, float]] = field(default_factory=dict)  # job -> type, GPUs, start

    def note(self, held: Mapping[str, Placement], now: float, begun_s: Mapping[str, float] | None = None) -> None:
        """Note what all jobs hold from `now` on. A job that is absent holds nothing.

        Args:
            begun_s: since when jobs hold that, where it is known, as after a restart of the service.
        """
        for job in self._since.keys() - held.keys():
            del self._since[job]
        for job, placement in held.items():
            gpu_type, gpus, since = self._since.get(job, ("", 0, now))
            if placement.gpu_type != gpu_type or placement.gpus > gpus:
                since = (begun_s or {}).get(job, now)
            self._since[job] = (placement.gpu_type, placement.gpus, since)

    def until_s(self, jobs: Collection[str] | None = None) -> dict[str, float]:
        """Return when the lease of each job ends; of these jobs, or of all."""
        return {
            job: since + self.lease_s for job, (_, _, since) in self._since.items() if jobs is None or job in jobs
        }
