"""How fast the input of simulated jobs is, with the CPUs and the memory that they hold."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from ...core.cluster import Cluster, Node
from ...core.placement import Placement
from ...estimators.sensitivity.model import Sensitivity
from ...policies.provisioning.shares import Shares, check_amounts
from ..traces.workload import Workload


class Inputs:
    """The input of jobs on the nodes of a cluster. A job without a sensitivity never waits for input.

    Args:
        cluster: None is accepted only if no job has a sensitivity.

    Raises:
        ValueError: one sentence, for a node without CPUs or memory, and for a share that a job's sensitivity does
            not cover.
    """

    def __init__(self, workload: Workload, cluster: Cluster | None) -> None:
        self._inputs = workload.inputs
        self._nodes: Mapping[str, Node] = {}
        known = {one: id for id, one in zip(workload.ids, workload.inputs, strict=True) if one is not None}
        if not known:
            return
        if cluster is None:
            raise ValueError(f"cluster: job {next(iter(known.values()))} has an input, so its nodes must be known")
        check_amounts(cluster.nodes)
        self._nodes = cluster.by_id
        shares = Shares(cluster)
        for one, id in known.items():
            for gpu_type in cluster.gpu_types:
                share = shares.of(gpu_type, 1)
                if (refusal := one.refusal(1, share.cpus, share.memory_gib)) is not None:
                    raise ValueError(f"trace: job {id}: {refusal}")

    def __getitem__(self, job: int) -> Sensitivity | None:
        return self._inputs[job]

    def samples_per_s(self, job: int, placement: Placement) -> float:
        """Return what a job reads and prepares with what a placement has; inf: it never waits for input."""
        known = self._inputs[job]
        return np.inf if known is None else rate_of(known, placement.gpus, *amounts_of_gpu(placement, self._nodes))


def amounts_of_gpu(placement: Placement, nodes: Mapping[str, Node]) -> tuple[float, float]:
    """Return the CPUs and the GiB of memory of each GPU, on the node where that is least.

    Where a policy gave neither, a job has its GPUs' share of the node.
    """
    cpus = memory_gib = np.inf
    for share in placement.shares:
        node, given = nodes[share.node_id], share.cpus or share.memory_gib
        cpus = min(cpus, share.cpus / share.gpus if given else node.cpus / node.gpus)
        memory_gib = min(memory_gib, share.memory_gib / share.gpus if given else node.memory_gib / node.gpus)
    return round(cpus, 9), round(memory_gib, 9)


@lru_cache(maxsize=65536)
def rate_of(sensitivity: Sensitivity, gpus: int, cpus: float, memory_gib: float) -> float:
    """Return the input of all GPUs together, with CPUs and GiB of memory for each."""
    return float(sensitivity.rate(gpus, np.asarray(gpus * cpus), np.asarray(gpus * memory_gib)))
