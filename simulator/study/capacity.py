"""The GPUs that a trace's cluster has, in all and in each virtual cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...core.cluster import Cluster
from ..engine.outcome import Outcome
from ..traces.cluster_file import SimulatedCluster


@dataclass(frozen=True)
class Capacity:
    """`gpus` of all, and of each virtual cluster; none: the cluster is not divided."""

    gpus: int
    by_name: Mapping[str, int]


def of_cluster(cluster: SimulatedCluster) -> Capacity:
    """Return the GPUs of a cluster that a user described."""
    by_name = {name: _gpus(cluster.parts[name]) for name in cluster.pools}
    return Capacity(sum(_gpus(part) for part in cluster.parts.values()), by_name)


def of_run(outcome: Outcome) -> Capacity:
    """Return the GPUs of a simulated run."""
    parts = {name: part for name, part in (outcome.parts or {}).items() if name}
    return Capacity(_gpus(outcome.cluster), {name: _gpus(part) for name, part in parts.items()})


def _gpus(cluster: Cluster) -> int:
    return sum(node.gpus for node in cluster.nodes)
