"""Nodes that are powered off or on their way back, as the rest of the cluster knows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .cluster import Cluster, Node


@dataclass(frozen=True)
class SleepingNode:
    """A node that no job can be placed on now, and that jobs may wait for.

    node: as it was when it was last there.
    waking: whether it is on its way back.
    boot_s: how long nodes take to come back, as the operator says.
    bought: whether it was never there, and Ray's autoscaler may be asked for it.
    """

    node: Node
    waking: bool = False
    boot_s: float = 300.0
    bought: bool = False


def with_sleeping(cluster: Cluster, asleep: Iterable[SleepingNode]) -> Cluster:
    """Return a cluster as it is when all its nodes are awake."""
    nodes = tuple(one.node for one in asleep if one.node.id not in cluster.by_id)
    return Cluster((*cluster.nodes, *nodes), cluster.pool) if nodes else cluster
