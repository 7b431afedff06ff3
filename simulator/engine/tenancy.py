"""Who is beside whom on GPUs that are shared, and how fast jobs are then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...core.placement import Placement


class SharedSpeeds(Protocol):
    """The truth of jobs that share GPUs."""

    def speed(self, job: int, beside: Sequence[int]) -> float:
        """Return how fast a job is beside others, over how fast it is alone. Both are positions."""


@dataclass
class Tenancy:
    """The jobs on each GPU that a placement names. `changed`: jobs beside whom somebody came or went."""

    changed: set[int] = field(default_factory=set)
    _tenants: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    _at: dict[int, Placement] = field(default_factory=dict)
    _beside: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def take(self, job: int, placement: Placement) -> None:
        """Let a job be on the GPUs of a placement."""
        self._at[job] = placement
        others = dict[int, None]()
        for device in sorted(placement.devices):
            here = self._tenants.setdefault(device, [])
            others.update(dict.fromkeys(here))
            here.append(job)
        self._note(job, others)

    def leave(self, job: int) -> None:
        """Take a job off the GPUs that it is on, if it is on any."""
        if (placement := self._at.pop(job, None)) is None:
            return
        for device in placement.devices:
            here = self._tenants[device]
            here.remove(job)
            if not here:
                del self._tenants[device]
        others = self._beside.pop(job, ())
        self.changed.discard(job)
        for other in others:
            rest = tuple(one for one in self._beside[other] if one != job)
            if rest:
                self._beside[other] = rest
            else:
                del self._beside[other]
            self.changed.add(other)

    def _note(self, job: int, others: dict[int, None]) -> None:
        if not others:
            return
        self._beside[job] = tuple(others)
        self.changed |= {job, *others}
        for other in others:
            self._beside[other] = (*self._beside.get(other, ()), job)

    def beside(self, job: int) -> Sequence[int]:
        """Return the jobs that share a GPU with a job."""
        return self._beside.get(job, ())

    @property
    def sharing(self) -> Sequence[int]:
        """Return the jobs that share a GPU with any other."""
        return list(self._beside)
