"""What is true of two jobs on one GPU: measured speeds of pairs, and what each job uses of its GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...core.usage import Usage, UsageOn

KNOWN_AFTER_S = 30.0  # of training, until what a job uses is known


@dataclass(frozen=True, eq=False)
class MeasuredPairs:
    """How fast jobs are beside others, by the kinds of both.

    kinds: of each job of the workload. table: (kind, kind beside it) -> its speed over that alone.
    otherwise: the same of two jobs, by position, whose pair was not measured.
    most: no job is faster beside another one than so; inf: as it was measured.
    """

    kinds: Sequence[str]
    table: Mapping[tuple[str, str], float]
    otherwise: Callable[[int, int], float]
    most: float = 1.0

    def speed(self, job: int, beside: Sequence[int]) -> float:
        """Return how fast a job is beside others, over how fast it is alone."""
        found = 1.0
        for other in beside:
            known = self.table.get((self.kinds[job], self.kinds[other]))
            found *= min(self.otherwise(job, other) if known is None else known, self.most)
        return found


@dataclass(frozen=True, eq=False)
class JobProfiles:
    """What each job uses of its GPUs; None: nobody knows.

    known_after_s: seconds with GPUs after which policies are told.
    """

    usage: Sequence[Usage | None]
    known_after_s: float = KNOWN_AFTER_S

    def told(self, job: int, held_s: float, gpu_types: Sequence[str]) -> Mapping[str, UsageOn]:
        """Return what is known of a job that had GPUs for so long, of some of these types."""
        usage = self.usage[job]
        if usage is None or held_s < self.known_after_s:
            return {}
        return dict.fromkeys(gpu_types[:1], UsageOn(usage, usage))
