"""Policies that order jobs of a fixed size and serve them from the front."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ..consolidation import FreeGpus
from ..placement import Placement
from ..round import JobColumns, Plan, Round


def in_order(round: Round, order: np.ndarray) -> Plan:
    """Nothing is preempted; waiting jobs start in `order` (positions in the round), none before its turn."""
    held = round.columns.held
    placements = _held(round, np.flatnonzero(held > 0))
    free = FreeGpus(round.cluster, placements.values())
    gpus = round.columns.gpus
    for i in order:
        if held[i]:
            continue
        found = free.find(int(gpus[i]), round.jobs[i].spec.resources.gpu_types)
        if found is None:
            break
        free.take(found)
        placements[round.jobs[i].id] = found
    return Plan(placements)


def preempting(round: Round, order: np.ndarray) -> Plan:
    """The jobs first in `order` whose GPUs fit the cluster run; others that run are stopped.

    A job that does not fit is passed over. One that is to run keeps its placement; one that finds no room on few
    nodes waits, and its GPUs with it.
    """
    columns = round.columns
    admitted = _admitted(columns.gpus[order], sum(round.cluster.capacity().values()))
    chosen = order[admitted]
    running = columns.held[chosen] > 0
    placements = _held(round, chosen[running])
    free = FreeGpus(round.cluster, placements.values())
    for i in chosen[~running]:
        found = free.find(int(columns.gpus[i]), round.jobs[i].spec.resources.gpu_types)
        if found is not None:
            free.take(found)
            placements[round.jobs[i].id] = found
    return Plan(placements)


class QueueingPolicy(ABC):
    """Jobs in the order of a key, smallest first; ties by submission, then by the trace's order."""

    preempts = True
    fixed_sizes = True  # jobs get the GPUs they ask for

    @abstractmethod
    def key(self, columns: JobColumns) -> np.ndarray: ...

    def plan(self, round: Round) -> Plan:
        columns = round.columns
        order = np.lexsort((columns.submitted_s, self.key(columns)))
        return (preempting if self.preempts else in_order)(round, order)


def _held(round: Round, at: np.ndarray) -> dict[str, Placement]:
    """What the running jobs at these positions have."""
    columns = round.columns
    return dict(zip(columns.ids[at].tolist(), columns.placements[at].tolist(), strict=True))


def _admitted(gpus: np.ndarray, capacity: int) -> np.ndarray:
    """Mask of the jobs that are taken when each takes what it asks for if so much is left."""
    taken = np.cumsum(gpus) <= capacity
    if taken.all():
        return taken
    first = int(taken.argmin())
    left = capacity - int(gpus[:first].sum())
    taken[first:] = False
    at = first
    while left > 0:
        fits = np.flatnonzero(gpus[at:] <= left)
        if not len(fits):
            break
        at += int(fits[0])
        taken[at] = True
        left -= int(gpus[at])
        at += 1
    return taken
