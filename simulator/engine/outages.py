"""Nodes that fail and come back, at times drawn from a seed."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...core.cluster import Cluster


@dataclass(frozen=True, order=True)
class Change:
    """At `time_s` a node fails, or comes back."""

    time_s: float
    node_id: str
    fails: bool


@dataclass(frozen=True)
class Failures:
    """Every node fails by itself after `mean_up_s` on average (exponential), and is back `repair_s` later."""

    mean_up_s: float
    repair_s: float = 3600.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean_up_s) and self.mean_up_s > 0):
            raise ValueError(f"mean_up_s: {self.mean_up_s} must be more than 0 seconds, and finite")
        if not (math.isfinite(self.repair_s) and self.repair_s >= 0):
            raise ValueError(f"repair_s: {self.repair_s} must be 0 seconds or more, and finite")

    def changes(self, cluster: Cluster) -> Changes:
        """Return all changes of a cluster's nodes, in order of time."""
        return Changes(self, cluster)


class Changes(Iterator[Change]):
    """Changes without end, in order of time. The times of a node do not depend on other nodes."""

    def __init__(self, failures: Failures, cluster: Cluster) -> None:
        self._failures = failures
        self._random = {
            node.id: np.random.default_rng([failures.seed, *node.id.encode()]) for node in cluster.nodes
        }
        self._coming = [Change(self._up_s(node.id), node.id, True) for node in cluster.nodes]
        heapq.heapify(self._coming)

    def __next__(self) -> Change:
        if not self._coming:
            raise StopIteration
        change = heapq.heappop(self._coming)
        after_s = self._failures.repair_s if change.fails else self._up_s(change.node_id)
        heapq.heappush(self._coming, Change(change.time_s + after_s, change.node_id, not change.fails))
        return change

    def _up_s(self, node_id: str) -> float:
        return float(self._random[node_id].exponential(self._failures.mean_up_s))
