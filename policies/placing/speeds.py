"""How fast a job of a fixed size is on each GPU type, as far as it is known."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...core.cluster import Cluster
from ...core.job import JobSpec
from ...core.placement import Placement
from ...estimators.goodput import goodput_on
from ..contract.round import JobView
from .demand import Demand
from .ledger import Ledger

Floats = NDArray[np.float64]


def types_for(spec: JobSpec, gpus: int, cluster: Cluster) -> tuple[str, ...]:
    """Return the GPU types of the cluster on which so many GPUs are whole replicas, and a size, of the job."""
    if spec.resources.gpu_types is None and spec.resources.gpus_per_replica == 1 and spec.sizes is None:
        return cluster.gpu_types
    return tuple(
        t
        for t in cluster.gpu_types
        if (each := spec.gpus_per_replica(t)) and gpus % each == 0 and spec.allows(t, gpus)
    )


@lru_cache(maxsize=4096)
def types_with_room(cluster: Cluster, gpus: int, demand: Demand) -> frozenset[str]:
    """Return the GPU types on which so many GPUs, and what is asked for beside them, fit idle nodes."""
    idle = Ledger(cluster)
    return frozenset(t for t in cluster.gpu_types if idle.find(gpus, (t,), demand=demand) is not None)


def is_whole(placement: Placement, spec: JobSpec) -> bool:
    """Return whether a placement has whole replicas on each node."""
    each = spec.gpus_per_replica(placement.gpu_type)
    return each == 1 or (each is not None and all(share.gpus % each == 0 for share in placement.shares))


def rates_of(job: JobView, gpus: int, cluster: Cluster) -> Floats:
    """Return (types,) a job's progress per second on `gpus` GPUs of each type, on as few nodes as possible.

    It is 0 where the job may not or cannot run. A job without measurements makes progress 1 on every type.
    """
    rates = np.zeros(len(cluster.gpu_types))
    allowed: Collection[str] = types_for(job.spec, gpus, cluster)
    if not (demand := Demand.of(job.spec)).is_wish:
        allowed = types_with_room(cluster, gpus, demand).intersection(allowed)
    for t, gpu_type in enumerate(cluster.gpu_types):
        if gpu_type not in allowed or gpus > cluster.capacity()[gpu_type]:
            continue
        if job.rates is not None:
            rates[t] = job.rates.get(gpu_type, 0.0)
        elif job.model is None:
            rates[t] = 1.0
        else:
            largest = max(node.gpus for node in cluster.of_type(gpu_type))
            rates[t] = goodput_on(job.model, gpu_type, gpus, largest)
    return rates


def startable_on(job: JobView, gpus: int, cluster: Cluster, *, type_blind: bool) -> Mapping[str, float]:
    """Return the progress per second on each GPU type that can run the job; 1 on all if `type_blind`."""
    rates = zip(cluster.gpu_types, rates_of(job, gpus, cluster).tolist(), strict=True)
    return {gpu_type: 1.0 if type_blind else rate for gpu_type, rate in rates if rate > 0}
