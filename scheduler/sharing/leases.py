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
            begun_s: since when jobs that are noted for the first time hold that, where it is known, as after a
                restart of the service. A job that moves still trains where it was, which says nothing of its new
                GPUs.
        """
        for job in self._since.keys() - held.keys():
            del self._since[job]
        for job, placement in held.items():
            known = self._since.get(job)
            if known is None:
                since = (begun_s or {}).get(job, now)
            else:
                grown = placement.gpu_type != known[0] or placement.gpus > known[1]
                since = now if grown else known[2]
            self._since[job] = (placement.gpu_type, placement.gpus, since)

    def until_s(self, jobs: Collection[str] | None = None) -> dict[str, float]:
        """Return when the lease of each job ends; of these jobs, or of all."""
        return {
            job: since + self.lease_s for job, (_, _, since) in self._since.items() if jobs is None or job in jobs
        }
