"""The replicas that train together now, and what they tell each other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..collective.group import Group
from .metrics import combine, weights_of


class Peers:
    """The group of this process; without one the process is alone, as rank 0 of 1."""

    def __init__(self) -> None:
        self.group: Group | None = None
        self._told: set[str] = set()

    @property
    def rank(self) -> int:
        return self.group.rank if self.group is not None else 0

    @property
    def world_size(self) -> int:
        return self.group.world_size if self.group is not None else 1

    @property
    def replicas(self) -> int:
        """The number of replicas, each of which may be several processes."""
        return self.world_size // self.processes

    @property
    def processes(self) -> int:
        """The number of processes of a replica."""
        return self.group.processes if self.group is not None else 1

    @property
    def data_width(self) -> int:
        """The number of parts that a batch is divided into in each pass."""
        return self.world_size // self.copies

    @property
    def copies(self) -> int:
        """The number of processes of a replica that compute the same samples together."""
        return self.group.copies if self.group is not None else 1

    @property
    def data_rank(self) -> int:
        return self.group.data_rank if self.group is not None else 0

    @property
    def seed_rank(self) -> int:
        """The rank by which random numbers differ: the same for processes that compute the same samples."""
        return self.data_rank % self.data_width

    @property
    def saves(self) -> bool:
        """Whether this process has part in saving: it is of replica 0, all of whose processes have."""
        return self.rank < self.processes

    @property
    def nodes(self) -> int:
        return self.group.nodes if self.group is not None else 1

    def tell(self, sentence: str) -> None:
        """Say something to the script's owner, once."""
        if sentence not in self._told:
            self._told.add(sentence)
            if self.rank == 0:
                print(f"coadapt: {sentence}", file=sys.stderr, flush=True)

    def all_say(self, mine: bool) -> bool:
        """Return whether all replicas say so; every one of them calls this. Raises GroupBroken."""
        return all(says for (says,) in self.told_by_all([int(mine)]))

    def told_by_all(self, mine: Sequence[int]) -> Sequence[Sequence[int]]:
        """Return what each replica tells, by rank; every one of them calls this. Raises GroupBroken."""
        group = self.group
        return [mine] if group is None or group.world_size == 1 else group.gather_ints(list(mine))

    def combine(self, value: Any, how: str, samples: float, mean_over: float | None) -> Any:
        """Return one value for all replicas; every one of them calls this.

        Means are weighed by what each is over, where all replicas have seen that, else by their `samples`.
        Raises ValueError for an unknown `how`, and GroupBroken.
        """
        if self.group is None or self.group.world_size == 1:
            return combine([value], [1.0], how)
        everyone = self.group.gather_objects([value, samples, mean_over])
        values, weights, over = zip(*everyone, strict=True)
        return combine(values, weights_of(weights, over), how)
