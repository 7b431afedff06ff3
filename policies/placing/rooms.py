"""Where jobs of a fixed size may start: on the fastest GPU type that has room."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ...core.cluster import Cluster
from ...core.placement import Placement
from ..contract.round import Round
from .demand import Demand
from .ledger import Ledger
from .speeds import is_whole, startable_on, types_for


def room(
    ledger: Ledger, round: Round, i: int, type_blind: bool, types: Collection[str] | None = None
) -> Placement | None:
    """Return where the job at a position may start, on the nodes of a ledger.

    Args:
        types: GPU types that come into question; None: all.
    """
    job, gpus, cluster = round.jobs[i], int(round.columns.gpus[i]), ledger.cluster
    demand = Demand.of(job.spec)
    if len(cluster.gpu_types) == 1 or (job.rates is None and job.model is None):
        may = types_for(job.spec, gpus, cluster)
        found = ledger.find(gpus, may if types is None else [t for t in may if t in types], demand=demand)
    else:
        speed = startable_on(job, gpus, cluster, type_blind=type_blind)
        found = ledger.find(gpus, speed if types is None else [t for t in speed if t in types], speed, demand)
    return found if found is not None and is_whole(found, job.spec) else None


def startable(round: Round, i: int, cluster: Cluster, type_blind: bool) -> list[str]:
    """Return the GPU types on which the job at a position may start if nothing else ran, fastest first."""
    job, gpus = round.jobs[i], int(round.columns.gpus[i])
    if len(cluster.gpu_types) == 1 or (job.rates is None and job.model is None):
        return list(types_for(job.spec, gpus, cluster))
    speed = startable_on(job, gpus, cluster, type_blind=type_blind)
    return sorted(speed, key=lambda t: (-speed[t], t))


def all_nodes(round: Round) -> Cluster:
    """Return the nodes of a round, and those that sleep."""
    cluster = round.cluster
    return Cluster((*cluster.nodes, *round.asleep), cluster.pool) if round.asleep else cluster


def ledger_of(round: Round, at: np.ndarray) -> Ledger:
    """Return a ledger of what the jobs at these positions hold on nodes that still exist."""
    columns = round.columns
    held = zip(columns.ids[at].tolist(), columns.placements[at].tolist(), strict=True)
    return Ledger.of(round.cluster, dict(held))
