"""One simulation from its parts: the whole cluster, or each virtual cluster by itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..scheduler.cluster import Cluster
from .cluster_file import WHOLE, SimulatedCluster
from .engine import Engine
from .outcome import Outcome, together
from .workload import Workload


def simulate(
    workload: Workload, cluster: SimulatedCluster, make: Callable[[Workload, Cluster], Engine]
) -> Outcome:
    """Run every part of the cluster with its own jobs, with an engine of its own from `make`.

    Raises ValueError for a job whose virtual cluster is none of the cluster's.
    """
    if set(cluster.parts) == {WHOLE}:
        return make(workload, cluster.parts[WHOLE]).run()
    names = np.array(workload.virtual_clusters)
    unknown = sorted(set(names.tolist()) - set(cluster.parts))
    if unknown:
        job = workload.ids[int(np.flatnonzero(names == unknown[0])[0])]
        have = ", ".join(sorted(cluster.parts))
        raise ValueError(f"trace: job {job} is of virtual cluster {unknown[0]!r}; the cluster has {have}")
    outcomes = [
        make(workload.select(names == name), part).run()
        for name, part in sorted(cluster.parts.items())
        if (names == name).any()
    ]
    return together(outcomes, workload, cluster.parts)
