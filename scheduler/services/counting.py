"""Counts the nodes of a round by kind, for services."""

from __future__ import annotations

from ...policies.contract.round import Plan, Round
from ...policies.sleeping.machines import pool_of
from .contract import NodeCounts, NodeKind


def counts_of(at_s: float, round: Round, plan: Plan) -> NodeCounts:
    """Return how many nodes of each kind there are, asleep or not, and on how many a plan has jobs.

    at_s: the moment of the round, seconds since 1970.
    """
    busy = {share.node_id for placement in plan.placements.values() for share in placement.shares}
    running: dict[NodeKind, int] = {}
    total: dict[NodeKind, int] = {}
    for node in (*round.cluster.nodes, *round.asleep):
        if node.gpus > 0:
            kind = NodeKind(pool_of(node, round), node.gpu_type)
            total[kind] = total.get(kind, 0) + 1
            running[kind] = running.get(kind, 0) + (node.id in busy)
    return NodeCounts(at_s, running, total)
