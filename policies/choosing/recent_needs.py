"""Which configurations there must be, so that jobs that come and go do not make them others in every round."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.cluster import Cluster
from ...core.job import JobSpec
from ..contract.configuration import needs

_ROUNDS = 60  # after which what no job needed is forgotten

Special = tuple[str, int, int]  # GPU type, GPUs, GPUs per replica


class RecentNeeds:
    """What `ConfigurationSet` must contain for the jobs of this round and of the last 60.

    Without it, one large job more or less, or one of an odd count, would make another set of configurations. All
    that is known by configuration, of every job, would then be worked out anew.
    """

    def __init__(self) -> None:
        self._round = 0
        self._special: dict[Special, int] = {}  # -> the round that last needed it
        self._most: dict[int, int] = {}

    def with_those_of(self, cluster: Cluster, specs: Iterable[JobSpec]) -> tuple[frozenset[Special], int]:
        """Return `extra` and `most_gpus`, with what the jobs of this round need."""
        extra, most = needs(cluster, specs)
        self._round += 1
        oldest = self._round - _ROUNDS
        self._special = {one: at for one, at in self._special.items() if at >= oldest} | dict.fromkeys(
            extra, self._round
        )
        self._most = {gpus: at for gpus, at in self._most.items() if at >= oldest and gpus > most} | {
            most: self._round
        }
        return frozenset(self._special), max(self._most)
