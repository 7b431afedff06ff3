"""Which configurations a job may use at all, and which it may use in this round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .configuration import ConfigurationSet, special_counts
from .round import JobView


@dataclass(frozen=True)
class Eligibility:
    """(jobs, configurations) masks.

    allowed: GPU types, counts and whole replicas as the job's user wants them. usable: allowed, and with a
    goodput above 0 where the job has a model. reachable: usable, and not beyond the doubling limit.
    smallest: (jobs,) GPUs of the smallest usable configuration, 0 where there is none.
    growth: (jobs, configurations) replicas over the most that the job ever held, at least 1 of those.
    """

    allowed: np.ndarray
    usable: np.ndarray
    reachable: np.ndarray
    smallest: np.ndarray
    growth: np.ndarray


def eligibility(
    jobs: Sequence[JobView],
    configurations: ConfigurationSet,
    goodput: np.ndarray,
    first: int = 0,
    reach: float = 2.0,
) -> Eligibility:
    """What each job may use; `goodput` is (jobs, configurations), zeros for a job without a model.

    A job starts with the smallest configuration of a GPU type and at most doubles its replicas per round,
    counted from the most it ever held on any type (Sia, section 3.3.2: models of larger configurations
    are trusted only when there are measurements of smaller ones). `first`: it may start with so many replicas;
    `reach`: and grow by this factor.
    """
    arrays = configurations.arrays
    per_replica = _gpus_per_replica(jobs, arrays.gpu_types)
    allowed = _allowed(jobs, configurations, per_replica)
    known = np.array([job.model is not None for job in jobs], dtype=bool)
    usable = allowed & ((goodput > 0) | ~known[:, None])
    gpus = arrays.gpus
    sizes = np.where(usable, gpus, np.iinfo(np.int64).max)
    smallest = sizes.min(axis=1, initial=np.iinfo(np.int64).max)
    ever = np.array(
        [_largest_replicas(job, arrays.gpu_types, row) for job, row in zip(jobs, per_replica, strict=True)]
    )
    reachable = np.zeros_like(usable)
    for t in range(len(arrays.gpu_types)):
        columns = np.flatnonzero(arrays.type_index == t)
        least = sizes[:, columns].min(axis=1)
        most = np.where(ever > 0, reach * ever, first) * per_replica[:, t]
        most = np.where(known, np.maximum(most, least), least)
        reachable[:, columns] = usable[:, columns] & (gpus[columns] <= most[:, None])
    replicas = gpus / np.maximum(per_replica[:, arrays.type_index], 1)
    growth = replicas / np.maximum(ever, 1)[:, None]
    return Eligibility(allowed, usable, reachable, np.where(usable.any(axis=1), smallest, 0), growth)


def _gpus_per_replica(jobs: Sequence[JobView], gpu_types: Sequence[str]) -> np.ndarray:
    """(jobs, types) GPUs of one replica, 0 where the job cannot run."""
    found = [[job.spec.gpus_per_replica(t) or 0 for t in gpu_types] for job in jobs]
    return np.array(found, dtype=np.int64).reshape(len(jobs), len(gpu_types))


def _largest_replicas(job: JobView, gpu_types: Sequence[str], per_replica: np.ndarray) -> int:
    held = dict(job.largest_gpus)
    if job.placement is not None:
        t = job.placement.gpu_type
        held[t] = max(held.get(t, 0), job.placement.gpus)
    return max((held.get(t, 0) // int(p) for t, p in zip(gpu_types, per_replica, strict=True) if p), default=0)


def _allowed(jobs: Sequence[JobView], configurations: ConfigurationSet, per_replica: np.ndarray) -> np.ndarray:
    arrays = configurations.arrays
    least = np.array([job.spec.resources.gpus or job.spec.resources.min_gpus for job in jobs], dtype=np.int64)
    most = np.array([job.spec.resources.gpus or job.spec.resources.max_gpus for job in jobs], dtype=np.int64)
    allowed = (arrays.gpus >= least[:, None]) & (arrays.gpus <= most[:, None])
    column_replica = per_replica[:, arrays.type_index]
    whole = np.zeros_like(allowed)
    for p in np.unique(per_replica[per_replica > 0]):
        holds = np.array([c.holds_replicas(int(p)) for c in configurations.items], dtype=bool)
        whole |= (column_replica == p) & holds
    special = np.flatnonzero(configurations.special)
    allowed &= whole
    if len(special):
        capacity = configurations.cluster.capacity()
        for i, job in enumerate(jobs):
            own = {(t, gpus) for t, gpus, _ in special_counts(job.spec, capacity)}
            mine = [(c.gpu_type, c.gpus) in own for c in (configurations.items[k] for k in special)]
            allowed[i, special] &= np.array(mine, dtype=bool)
    return allowed
