"""The GPUs that a trace's cluster has, in all and in each virtual cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.cluster import Cluster
from ..engine.outcome import Outcome
from ..traces.cluster_file import SimulatedCluster
from .jobs import StudiedJobs


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


def served(jobs: StudiedJobs, capacity: Capacity) -> NDArray[np.bool_]:
    """Return (jobs,) whether a job's virtual cluster has GPUs; all of them do where one side names none."""
    by = jobs.virtual_clusters
    if not capacity.by_name or not len(by):
        return np.ones(len(jobs), bool)
    fits = [capacity.by_name.get(name, 0) > 0 for name in by.names]
    return np.array([*fits, False])[by.of]  # the last is that of jobs without a virtual cluster


def _gpus(cluster: Cluster) -> int:
    return sum(node.gpus for node in cluster.nodes)
