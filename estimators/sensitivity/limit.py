"""How fast a job is with its share of CPUs and memory, where its input may be slower than its GPUs."""

from __future__ import annotations

import numpy as np

from ...core.cluster import Cluster
from ..goodput import JobModel, best_batch
from .model import Sensitivity


def limited_goodput(model: JobModel, sensitivity: Sensitivity, cluster: Cluster, gpus: int) -> float:
    """Return the goodput on so many GPUs of the GPU type that is best for a job, samples/s; 0: none has so many.

    The job has its GPUs' part of the nodes' CPUs and memory. A node that states none has enough.
    """
    found, capacity = 0.0, cluster.capacity()
    for gpu_type in (t for t in cluster.gpu_types if t in model.throughput and capacity[t] >= gpus):
        nodes = -(-gpus // cluster.largest_nodes[gpu_type])
        best = best_batch(model, gpu_type, nodes, gpus // model.gpus_per_replica.get(gpu_type, 1))
        if best is None:
            continue
        of = cluster.of_type(gpu_type)
        cpus = min((node.cpus or np.inf) / node.gpus for node in of)
        memory_gib = min((node.memory_gib or np.inf) / node.gpus for node in of)
        rate = float(sensitivity.rate(gpus, np.array(gpus * cpus), np.array(gpus * memory_gib)))
        found = max(found, best.goodput * min(rate / best.throughput, 1.0))
    return found
