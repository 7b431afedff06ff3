"""The terms of teams where two jobs may share GPUs: caps block, and guarantees are served first.

Each job of a pair counts as if it had whole GPUs. Jobs that are measured count for no team.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..core.cluster import Cluster
from ..core.placement import Placement
from ..core.teams import kind_of
from .admission import Counts
from .contract.sharing import Sharing, Standing, stand


class PoolTerms:
    """What jobs of one pool may have while a round is planned. `kept`: GPU types on which a guarantee waits."""

    def __init__(self, sharing: Sharing, held: Mapping[str, Placement]) -> None:
        self.sharing = sharing
        self.counts = Counts(sharing)
        self.kept: set[str] = set()
        for job, placement in held.items():
            self.gives(job, placement)

    def gives(self, job: str, placement: Placement) -> None:
        """Count what a job gets."""
        self.counts.add(job, placement.gpu_type, placement.gpus)

    def takes(self, job: str, placement: Placement) -> None:
        """Count what a job gives back."""
        self.counts.add(job, placement.gpu_type, -placement.gpus)

    def within(self, job: str, gpus: int, types: Iterable[str]) -> tuple[str, ...]:
        """Return the GPU types on which a job's team would stay within its guarantee."""
        return tuple(t for t in types if self.counts.is_within(job, t, gpus))

    def borrowable(self, job: str, gpus: int, types: Iterable[str]) -> tuple[str, ...]:
        """Return the GPU types that a job may have within its team's cap, and that no guarantee waits for."""
        return tuple(t for t in types if self.counts.is_allowed(job, t, gpus) and t not in self.kept)

    def may_reclaim(self, job: str, placement: Placement, now: float) -> bool:
        """Return whether a guarantee may take what a job has: its team borrowed it, and its lease is over."""
        return bool(self.counts.borrowed(job, placement.gpu_type)) and not self.sharing.is_leased(job, now)


def terms_of(sharing: Sharing | None, held: Mapping[str, Mapping[str, Placement]]) -> dict[str, PoolTerms]:
    """Return the terms of each pool, by what its jobs hold; empty without teams."""
    if sharing is None:
        return {}
    return {pool: PoolTerms(sharing.of_pool(pool), placements) for pool, placements in held.items()}


def standings_of(
    sharing: Sharing | None, held: Mapping[str, Mapping[str, Placement]], cluster: Cluster
) -> dict[str, dict[str, Standing]]:
    """Return how teams stand in all pools, by team and GPU type; a type of a pool is named with it."""
    found: dict[str, dict[str, Standing]] = {}
    for pool, placements in held.items() if sharing is not None else ():
        assert sharing is not None
        own = stand(sharing.of_pool(pool), placements, cluster.of_pool(pool).gpu_types)
        for team, by_type in own.items():
            found.setdefault(team, {}).update({kind_of(t, pool): one for t, one in by_type.items()})
    return found
