"""Decides which configurations a job may use at all, and which it may use in this round."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...core.job import JobSpec
from ...core.resources import TOLERANCE
from ...estimators.goodput import ConfigurationArrays
from ..contract.configuration import ConfigurationSet, special_counts, want
from ..contract.round import JobView
from ..placing.demand import Demand
from ..placing.ledger import totals_of


@dataclass(frozen=True)
class Eligibility:
    """What jobs may use: masks of (jobs, configurations), and what they are made from.

    allowed: GPU types, counts and whole replicas as the job's user wants them.
    usable: allowed, and with a goodput above 0 if the job has a model.
    within_growth: usable, and not beyond the limit of growth.
    smallest: (jobs,) GPUs of the smallest usable configuration; 0 if there is none.
    gpus_per_replica: (jobs, types); 0 where the job cannot run.
    replicas: (jobs,) the most that the job ever held.
    """

    allowed: np.ndarray
    usable: np.ndarray
    within_growth: np.ndarray
    smallest: np.ndarray
    gpus_per_replica: np.ndarray
    replicas: np.ndarray
    arrays: ConfigurationArrays

    @cached_property
    def growth(self) -> np.ndarray:
        """(jobs, configurations) replicas over the most that the job ever held; a new job counts as 1."""
        each = np.maximum(self.gpus_per_replica, 1)[:, self.arrays.type_index]
        return self.arrays.gpus / (each * np.maximum(self.replicas, 1)[:, None])


def eligibility(
    jobs: Sequence[JobView],
    configurations: ConfigurationSet,
    goodput: np.ndarray,
    first: int = 0,
    reach: float = 2.0,
) -> Eligibility:
    """Return what each job may use.

    A job starts small and grows step by step, from the most replicas it ever held on any type. A model is trusted
    for large configurations only once smaller ones were measured (Sia, section 3.3.2).

    Args:
        goodput: (jobs, configurations), 0 for a job without a model.
        first: replicas that a job may start with, if more than the smallest configuration of a type.
        reach: factor by which a job may grow.
    """
    arrays = configurations.arrays
    alike: dict[Hashable, int] = {}  # jobs that want the same share a row
    kind = np.array([alike.setdefault(want(job.spec), len(alike)) for job in jobs], dtype=np.int64)
    specs = [jobs[i].spec for i in np.unique(kind, return_index=True)[1].tolist()]
    each = [{t: spec.gpus_per_replica(t) or 0 for t in arrays.gpu_types} for spec in specs]
    rows = np.zeros((len(specs), len(configurations)), dtype=bool)
    for row, spec, replica in zip(rows, specs, each, strict=True):
        _allow(row, spec, replica, configurations)
    allowed = rows[kind]
    per_replica = np.array([list(row.values()) for row in each], dtype=np.int64)
    per_replica = per_replica.reshape(len(specs), len(arrays.gpu_types))[kind]
    replicas = np.array(
        [_most_replicas(job, each[k]) for job, k in zip(jobs, kind.tolist(), strict=True)], np.int64
    )

    known = np.array([job.model is not None for job in jobs], dtype=bool)
    usable = goodput > 0
    usable[~known] = True
    usable &= allowed
    within_growth = np.zeros_like(usable)
    none = np.iinfo(np.int64).max
    smallest = np.full(len(jobs), none)
    for t, columns in enumerate(configurations.columns_of.values()):
        gpus, mine = arrays.gpus[columns], usable[:, columns]
        least = np.where(mine.any(axis=1), gpus[mine.argmax(axis=1)], none)
        most = np.where(replicas > 0, reach * replicas, first) * per_replica[:, t]
        most = np.where(known, np.maximum(most, least), least)
        within = np.searchsorted(gpus, most, side="right")
        np.logical_and(mine, np.arange(len(gpus)) < within[:, None], out=within_growth[:, columns])
        np.minimum(smallest, least, out=smallest)
    return Eligibility(
        allowed, usable, within_growth, np.where(smallest < none, smallest, 0), per_replica, replicas, arrays
    )


def has_room(spec: JobSpec, configurations: ConfigurationSet) -> np.ndarray:
    """Return (configurations,) whether idle nodes have the CPUs and the memory that a job asks for beside GPUs."""
    demand, arrays = Demand.of(spec), configurations.arrays
    found = np.ones(len(configurations), bool)
    if demand.is_wish:
        return found
    node_gpus = np.array([c.node_gpus for c in configurations.items], np.int64)
    most_per_node = -(-arrays.gpus // arrays.nodes)
    for t, total in totals_of(configurations.cluster).items():
        room = total.gpus.astype(float)  # GPUs of each node that a job of this kind may have
        for each, has in ((demand.cpus_per_gpu or 0.0, total.cpus), (demand.least_memory_gib, total.memory_gib)):
            if each > 0:
                room = np.minimum(room, np.floor(has / each + TOLERANCE))
        columns = configurations.columns_of[t]
        for size in np.unique(node_gpus[columns]).tolist():
            at = np.arange(columns.start, columns.stop)[node_gpus[columns] == size]
            largest = np.sort(room[total.gpus == size] if size else room)[::-1]
            # So many nodes as a configuration takes have room where the last of the roomiest ones has.
            last = np.append(largest, -1.0)[np.minimum(arrays.nodes[at], len(largest) + 1) - 1]
            found[at] = last >= most_per_node[at]
    return found


def _allow(
    row: np.ndarray, spec: JobSpec, per_replica: Mapping[str, int], configurations: ConfigurationSet
) -> None:
    """Mark in the row (configurations,) what the job's user allows: types, counts and whole replicas."""
    resources, gpus = spec.resources, configurations.arrays.gpus
    for t, columns in configurations.columns_of.items():
        if per_replica[t]:
            row[columns] = configurations.holds_replicas(per_replica[t])[columns]
    row &= gpus >= (resources.gpus or resources.min_gpus)
    row &= gpus <= (resources.gpus or resources.max_gpus)
    if spec.sizes is not None:
        for t, columns in configurations.columns_of.items():
            row[columns] &= np.isin(gpus[columns], spec.sizes_on(t) or [])
    row &= has_room(spec, configurations)
    special = np.flatnonzero(row & configurations.special)
    if len(special):
        own = {(t, count) for t, count, _ in special_counts(spec, configurations.cluster.capacity())}
        row[special] = [(c.gpu_type, c.gpus) in own for c in (configurations[k] for k in special.tolist())]


def _most_replicas(job: JobView, per_replica: Mapping[str, int]) -> int:
    """Return the most replicas that the job ever held on any type of the cluster."""
    most, placement = 0, job.placement
    for t, gpus in job.largest_gpus.items():
        if each := per_replica.get(t):
            most = max(most, gpus // each)
    if placement is not None and (each := per_replica.get(placement.gpu_type)):
        most = max(most, placement.gpus // each)
    return most
