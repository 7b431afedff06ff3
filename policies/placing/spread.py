"""GPUs of any nodes of a type: together where there is room, else over as few nodes as can be."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.job import JobSpec
from ...core.placement import NodeShare, Placement
from .demand import Demand
from .ledger import Ledger
from .speeds import is_whole


def anywhere(ledger: Ledger, spec: JobSpec, gpus: int, gpu_type: str) -> Placement | None:
    """Return GPUs of a type with what is asked for beside them; None: that is not left, or replicas are torn."""
    demand = Demand.of(spec)
    if (found := ledger.find(gpus, (gpu_type,), demand=demand)) is not None:
        return found if is_whole(found, spec) else None
    each = spec.gpus_per_replica(gpu_type) or 1
    nodes = sorted(ledger.cluster.of_type(gpu_type), key=lambda node: (-ledger.idle_on(node.id), node.id))
    shares, left = list[NodeShare](), gpus
    for node in nodes:
        taken = min(left, ledger.idle_on(node.id)) // each * each
        while taken:
            share = NodeShare(node.id, taken, *demand.on(node, taken))
            if ledger.lack(share, gpu_type) is None:
                shares.append(share)
                left -= taken
                break
            taken -= each  # the node has too few CPUs, or too little memory, for more
        if not left:
            return Placement(gpu_type, tuple(shares))
    return None


def on_nodes(ledger: Ledger, spec: JobSpec, shares: Iterable[tuple[str, int]], gpu_type: str) -> Placement | None:
    """Return GPUs of these nodes with what is asked for beside them; None as of `anywhere`."""
    demand, nodes = Demand.of(spec), ledger.cluster.by_id
    found = Placement(gpu_type, tuple(NodeShare(id, gpus, *demand.on(nodes[id], gpus)) for id, gpus in shares))
    if not is_whole(found, spec) or any(ledger.lack(share, gpu_type) for share in found.shares):
        return None
    return found
