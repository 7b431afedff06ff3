"""Whether what a policy returned is a plan of its round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real

from ...core.cluster import Node
from ...core.placement import NodeShare, Placement
from ...core.resources import TOLERANCE
from .round import JobView, Note, Plan, Round


class WrongPlan(ValueError):
    """What a policy returned is no plan of its round; one sentence for a person."""


def check_plan(plan: object, round: Round, crosses_pools: bool = False) -> None:
    """Raise WrongPlan, one sentence with job and node, where a plan cannot be one of its round.

    Each placement must be of a job of the round, on nodes of the job's pool, with GPUs that they have. All
    placements together must fit each node. A policy that `crosses_pools` minds itself whose nodes are whose. CPUs,
    memory and names of GPUs are not looked at.
    """
    jobs, nodes = {job.id: job for job in round.jobs}, round.cluster.by_id
    used: dict[str, float] = {}
    for id, placement in checked_form(plan).placements.items():
        if id not in jobs:
            raise WrongPlan(f"plan: job {id!r} gets GPUs and is not in the round")
        if not isinstance(placement, Placement) or not placement.shares:
            raise WrongPlan(f"plan: job {id} gets {placement!r}, which names no node")
        for share in placement.shares:
            _check_share(jobs[id], placement.gpu_type, share, nodes.get(share.node_id), crosses_pools)
            used[share.node_id] = used.get(share.node_id, 0.0) + share.gpus * share.share
    for node_id, gpus in used.items():
        if gpus > nodes[node_id].gpus + TOLERANCE:
            raise WrongPlan(f"plan: jobs get {gpus:g} GPUs of node {node_id}, which has {nodes[node_id].gpus}")


def checked_form(plan: object) -> Plan:
    """Return a policy's answer as a plan. Raise WrongPlan, one sentence, if it is none or has a wrong field.

    Neither the round nor single placements are looked at.
    """
    if not isinstance(plan, Plan):
        raise WrongPlan(f"plan: {type(plan).__name__} is no Plan")
    if plan.again_s is not None and not (isinstance(plan.again_s, Real) and plan.again_s > -math.inf):
        raise WrongPlan(f"plan: again_s {plan.again_s!r} is no time in seconds")
    if not isinstance(plan.placements, Mapping):
        raise WrongPlan(f"plan: {type(plan.placements).__name__} maps no jobs to placements")
    if (strange := next((note for note in plan.notes if not isinstance(note, Note)), None)) is not None:
        raise WrongPlan(f"plan: notes has {strange!r}, which is no Note")
    return plan


def _check_share(job: JobView, gpu_type: str, share: NodeShare, node: Node | None, crosses_pools: bool) -> None:
    if node is None:
        wrong = ", which is not in the round"
    elif node.gpu_type != gpu_type:
        wrong = f" as {gpu_type}; it has {node.gpu_type}"
    elif not crosses_pools and node.pool != (job.spec.pool or ""):
        wrong = f", which is of {f'pool {node.pool}' if node.pool else 'no pool'}"
    elif not isinstance(share.gpus, Integral) or not 1 <= share.gpus <= node.gpus:
        wrong = f": {share.gpus}; 1 to {node.gpus} are accepted"
    elif not 0 < share.share <= 1:
        wrong = f": {share.share} of each; more than 0 and at most 1 is accepted"
    else:
        return
    raise WrongPlan(f"plan: job {job.id} gets GPUs of node {share.node_id}{wrong}")
