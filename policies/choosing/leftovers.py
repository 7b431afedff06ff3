"""Gives away what a plan leaves on the nodes, where choices of the program found no room there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...core.placement import NodeShare, Placement
from ...optimizer.allocation.listing import Entries
from ..contract.configuration import ConfigurationSet
from ..placing.demand import Demand
from ..placing.ledger import Ledger


def leftovers(
    ids: Sequence[str],
    entries: Entries,
    placements: Mapping[str, Placement],
    configurations: ConfigurationSet,
    demand_of: Callable[[str], Demand],
) -> dict[str, Placement]:
    """Return placements for jobs that have none, on what is left. Options of the largest gain come first.

    The program counts CPUs and memory by GPU type. So it may choose what is free in all, but on no single node.

    Args:
        ids: of the rows of `entries`.
        placements: what is given already.
    """
    taken = {id: _with_whole_nodes(placement, configurations) for id, placement in placements.items()}
    ledger = Ledger.of(configurations.cluster, taken)
    waits = np.array([id not in placements for id in ids], bool)
    open_ = np.flatnonzero(waits[entries.row] & (entries.gain > 0.0))
    found: dict[str, Placement] = {}
    for k in open_[np.lexsort((entries.column[open_], entries.row[open_], -entries.gain[open_]))].tolist():
        id, c = ids[entries.row[k]], configurations[entries.column[k]]
        if id in found:
            continue
        placement = ledger.find(c.gpus, (c.gpu_type,), demand=demand_of(id))
        if placement is not None and configurations.of(placement) == c:
            ledger.take(id, _with_whole_nodes(placement, configurations))
            found[id] = placement
    return found


def _with_whole_nodes(placement: Placement, configurations: ConfigurationSet) -> Placement:
    """Return what a job keeps from others: all of its nodes, if its configuration takes whole nodes."""
    c = configurations.of(placement)
    if c is None or not c.node_gpus or c.gpus == c.nodes * c.node_gpus:
        return placement
    return Placement(c.gpu_type, tuple(NodeShare(share.node_id, c.node_gpus) for share in placement.shares))
