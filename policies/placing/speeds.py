"""How fast a job of a fixed size is on each GPU type, as far as it is known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...core.cluster import Cluster
from ...estimators.goodput import goodput_on
from ..contract.round import JobView

Floats = NDArray[np.float64]


def rates_of(job: JobView, gpus: int, cluster: Cluster) -> Floats:
    """Return (types,) a job's progress per second on `gpus` GPUs of each type, on as few nodes as possible.

    It is 0 where the job may not or cannot run. A job without measurements makes progress 1 on every type.
    """
    rates = np.zeros(len(cluster.gpu_types))
    allowed = job.spec.resources.gpu_types
    for t, gpu_type in enumerate(cluster.gpu_types):
        if (allowed is not None and gpu_type not in allowed) or gpus > cluster.capacity()[gpu_type]:
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
