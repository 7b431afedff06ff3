"""The virtual clusters (VCs): what each is asked for, and whether one lacks GPUs while others idle."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..results.metrics import Intervals
from ..traces.tables import Floats
from ..traces.workload import Ints
from .capacity import Capacity
from .jobs import StudiedJobs
from .time_bins import Bins

SHOWN = 10  # VCs whose hours are kept for the picture


@dataclass(frozen=True)
class Imbalance:
    """Hours in which some VC wanted more GPUs than it has, while others had idle ones.

    `lacking`, `at_once`: shares of hours with a lack, and with a lack beside idle GPUs (one at least).
    `gpus`: that could have been used at once, mean of all hours: what lacked, as far as it idled elsewhere.
    """

    lacking: float
    at_once: float
    gpus: float


@dataclass(frozen=True, eq=False)
class VirtualClusters:
    """One value per VC, those with most GPU time (or jobs, where no length is known) first; nan: not known.

    `use`: mean GPUs in the window. `hours`: GPUs in use by the hour of the first VCs.
    """

    names: tuple[str, ...]
    gpus: Floats  # that it has
    jobs: Ints
    users: Ints
    mean_gpus: Floats
    mean_length_s: Floats
    median_length_s: Floats
    mean_wait_s: Floats
    gpu_s: Floats
    use: Floats
    hours: tuple[Floats, ...]
    imbalance: Imbalance | None  # None: sizes or lengths are not known


def virtual_clusters(jobs: StudiedJobs, bins: Bins | None, capacity: Capacity | None) -> VirtualClusters | None:
    """Return the VCs of a trace; None: it names none. `bins`: the hours of the window; None: too many."""
    by = jobs.virtual_clusters
    if not len(by):
        return None
    count, gpu_s = by.jobs(), by.sums(jobs.gpu_s)
    order = np.lexsort((-count, -gpu_s))
    sized = capacity.by_name if capacity is not None else {}
    gpus = np.array([float(sized.get(name, np.nan)) for name in by.names])
    use = np.full(len(by), np.nan)
    hours: tuple[Floats, ...] = ()
    imbalance = None
    if bins is not None and jobs.lengths_known:
        window_s = float(bins.edges_s[-1] - bins.edges_s[0])
        whole = Bins(bins.edges_s[[0, -1]])
        held = _by_group(jobs.held, by.of, len(by))
        use = np.array([float(whole.gpu_s(part)[0]) / window_s for part in held])
        hours = tuple(bins.gpu_s(held[at]) / bins.width_s for at in order[:SHOWN])
        if sized:
            others = sum(has for name, has in sized.items() if name not in by.names)
            imbalance = _imbalance(jobs, bins, gpus, others)
    pairs = np.unique(np.stack([by.of, jobs.users.of])[:, (by.of >= 0) & (jobs.users.of >= 0)], axis=1)
    return VirtualClusters(
        names=tuple(by.names[at] for at in order),
        gpus=gpus[order],
        jobs=count[order],
        users=np.bincount(pairs[0], minlength=len(by))[order],
        mean_gpus=by.means(jobs.gpus.astype(float))[order],
        mean_length_s=by.means(jobs.length_s)[order],
        median_length_s=by.medians(jobs.length_s)[order],
        mean_wait_s=by.means(jobs.wait_s)[order],
        gpu_s=gpu_s[order],
        use=use[order],
        hours=hours,
        imbalance=imbalance,
    )


def _imbalance(jobs: StudiedJobs, bins: Bins, gpus: Floats, others: int) -> Imbalance:
    """Return the imbalance of VCs with `gpus` each; `others`: GPUs of VCs without jobs, which always idle."""
    wanted = _by_group(jobs.wanted(), jobs.virtual_clusters.of, len(gpus))
    lack, idle = np.zeros(len(bins.width_s)), np.full(len(bins.width_s), float(others))
    for part, has in zip(wanted, gpus.tolist(), strict=True):
        if np.isfinite(has):
            beyond = bins.gpu_s(part) / bins.width_s - has
            lack += np.maximum(beyond, 0.0)
            idle += np.maximum(-beyond, 0.0)
    both = np.minimum(lack, idle)
    weight = bins.width_s / bins.width_s.sum()
    return Imbalance(
        lacking=float(weight[lack >= 1].sum()),
        at_once=float(weight[both >= 1].sum()),
        gpus=float((weight * both).sum()),
    )


def _by_group(held: Intervals, of: Ints, groups: int) -> list[Intervals]:
    """Return the intervals of each group of jobs; `of`: (jobs,) the group of a job, -1: none."""
    group = of[held.job]
    order = np.argsort(group, kind="stable")
    edges = np.searchsorted(group[order], np.arange(groups + 1))
    parts = [order[low:high] for low, high in pairwise(edges)]
    return [
        Intervals(held.job[at], held.start_s[at], held.end_s[at], held.gpu_type[at], held.gpus[at]) for at in parts
    ]
