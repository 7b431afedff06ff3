"""Remembers which configurations jobs needed lately, so that the set does not change with every job."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.cluster import Cluster
from ...core.job import JobSpec
from ..contract.configuration import needs
from ..placing.demand import Demand

_ROUNDS = 60  # rounds after which an unneeded configuration is forgotten

Special = tuple[str, int, int]  # GPU type, GPUs, GPUs per replica


class RecentNeeds:
    """What `ConfigurationSet` must contain for the jobs of this round and of the last 60.

    Without it a single job, very large or of an odd count, would change the set of configurations when it comes
    and goes. All values of all jobs would then be computed anew.
    """

    def __init__(self) -> None:
        self._round = 0
        self._special: dict[Special, int] = {}  # -> the round that last needed it
        self._most: dict[int, int] = {}
        self._demands: dict[tuple[float | None, float | None], int] = {}

    def with_those_of(self, cluster: Cluster, specs: Iterable[JobSpec]) -> tuple[frozenset[Special], int]:
        """Note what the jobs of this round need. Return `extra` and `most_gpus` of `ConfigurationSet`."""
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

    def demands_with_those_of(self, specs: Iterable[JobSpec]) -> list[Demand]:
        """Return what the jobs of this round and of the last 60 ask for beside each GPU.

        Call it after `with_those_of`, which counts the rounds.
        """
        found = {(spec.resources.cpus_per_gpu, spec.resources.memory_gib_per_gpu) for spec in specs}
        oldest = self._round - _ROUNDS
        self._demands = {one: at for one, at in self._demands.items() if at >= oldest} | dict.fromkeys(
            found, self._round
        )
        return [Demand(*one) for one in self._demands]
