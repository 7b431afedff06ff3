"""Limits of CPUs and memory: rows of a round's program beside those that count GPUs.

Jobs that ask for more than their GPUs' part of a node leave less than that to others. So what a configuration
takes depends on the kind of the job: on its demand. A round in which nobody asks for more needs no such limits.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...core.cluster import Cluster
from ...core.placement import Placement
from ...core.resources import TOLERANCE
from ..contract.configuration import ConfigurationSet, Limits
from ..placing.demand import WISH, Demand
from ..placing.ledger import totals_of

MOST_KINDS = 16  # each kind has a copy of every column of the program


class DemandKinds:
    """The kinds of jobs of a program, by what they ask for beside each GPU. Kind 0 is the default demand.

    There is only that kind if every demand is within the GPUs' part of every node. With more than 16 demands,
    those between the same two powers of two share a kind, which counts the lower amounts. The placer then finds
    what does not fit.
    """

    def __init__(self, cluster: Cluster, demands: Iterable[Demand]) -> None:
        found = {WISH, *demands}
        if not any(_exceeds_part(demand, cluster) for demand in found):
            found = {WISH}
        self._is_coarse = len(found) > MOST_KINDS
        if self._is_coarse:
            found = {_coarse(demand) for demand in found}
        others = sorted(found - {WISH}, key=lambda d: (d.least_cpus, d.cpus_per_gpu is None, d.least_memory_gib))
        self.demands: tuple[Demand, ...] = (WISH, *others)
        self._place = {demand: i for i, demand in enumerate(self.demands)}

    @property
    def count(self) -> int:
        return len(self.demands)

    def of(self, demand: Demand) -> int:
        """Return the kind of a job with this demand."""
        return self._place.get(_coarse(demand) if self._is_coarse else demand, 0)

    def limits(self, limits: Limits, configurations: ConfigurationSet, held: Iterable[Placement]) -> Limits:
        """Return `limits` with those of CPUs and memory added, per kind. With one kind it is the same object.

        A configuration that fills a node leaves nothing of it to others, so it takes all the CPUs there.

        Args:
            held: placements that are not to be moved.
        """
        if self.count == 1:
            return limits
        held = tuple(held)
        usage = [np.repeat(limits.usage[None], self.count, axis=0)]
        capacity, types = [limits.capacity], list(limits.gpu_types)
        for t, total in totals_of(configurations.cluster).items():
            cpus = np.array([_cpus(demand, total.cpus / total.gpus) for demand in self.demands])
            memory = np.array([demand.least_memory_gib for demand in self.demands])
            shares = [share for placement in held if placement.gpu_type == t for share in placement.shares]
            for each, has, taken in (
                (cpus, total.cpus, sum(share.cpus for share in shares)),
                (memory, total.memory_gib, sum(share.memory_gib for share in shares)),
            ):
                if np.isfinite(has).all() and each.max() > (has / total.gpus).min() + TOLERANCE:
                    usage.append(_row(each, has, total.gpus, t, configurations)[:, None])
                    capacity.append(np.array([max(float(has.sum()) - taken, 0.0) + TOLERANCE]))
                    types.append(t)
        return Limits(np.concatenate(usage, axis=1), np.concatenate(capacity), tuple(types))


def _row(
    each: np.ndarray, has: np.ndarray, node_gpus: np.ndarray, gpu_type: str, configurations: ConfigurationSet
) -> np.ndarray:
    """Return (kinds, configurations) what each takes of the CPUs or the memory of a GPU type.

    Args:
        each: (kinds,) amount beside each GPU.
        has, node_gpus: (nodes,) the amount and the GPUs of each node of the type.
    """
    columns, arrays = configurations.columns_of[gpu_type], configurations.arrays
    whole = np.array([c.node_gpus for c in configurations.items[columns]], np.int64)
    gpus, nodes = arrays.gpus[columns], arrays.nodes[columns]
    size = np.where((whole == 0) & (gpus == node_gpus.max()), gpus, whole)
    filled = np.zeros(len(size))
    for one in np.unique(size[size > 0]).tolist():
        filled[size == one] = has[node_gpus == one].min()
    row = np.zeros((len(each), len(configurations)))
    row[:, columns] = np.maximum(each[:, None] * gpus, filled * nodes)
    return row


def _cpus(demand: Demand, part: np.ndarray) -> float:
    """Return the CPUs that a job gets beside each GPU, at least. `part`: (nodes,) CPUs per GPU of each node."""
    return float(demand.cpus_beside(part).min())


def _exceeds_part(demand: Demand, cluster: Cluster) -> bool:
    """Return whether a job may get more of some node than the part of its GPUs."""
    for total in totals_of(cluster).values():
        part = total.cpus / total.gpus
        if _cpus(demand, part) > part.min() + TOLERANCE:
            return True
        if demand.least_memory_gib > (total.memory_gib / total.gpus).min() + TOLERANCE:
            return True
    return False


def _coarse(demand: Demand) -> Demand:
    """Return a demand with the largest powers of two that are not above the amounts; what is not said stays."""
    cpus, memory = (
        float(2.0 ** np.floor(np.log2(amount))) if amount else amount
        for amount in (demand.cpus_per_gpu, demand.memory_gib_per_gpu)
    )
    return Demand(cpus, memory)
