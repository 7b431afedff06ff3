"""Which machines wake and which sleep: whole placements by pool and GPU type, where the paper counts. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ...core.cluster import Cluster, Node
from ...core.decisions import Waiting, WaitReason
from ...core.placement import Placement
from ...core.wording import n_gpus
from ..contract.round import JobView, Plan, Round
from ..placing.demand import Demand
from ..placing.ledger import Ledger
from ..placing.speeds import is_whole, types_for

MOST_ASKED = 64  # waiting jobs of a pool that are looked at in one round
_LAST = "\uffff"  # nodes that sleep come after those that are awake, in the order of ids
# A job that waits for one of these may start when nodes wake.
HELPED = frozenset(
    {
        WaitReason.POOL_EMPTY,
        WaitReason.NO_GPU_TYPE,
        WaitReason.TOO_LARGE,
        WaitReason.NO_ROOM,
        WaitReason.FRAGMENTED,
        WaitReason.NO_CPUS_OR_MEMORY,
        WaitReason.BEHIND_OTHERS,
        WaitReason.NO_CONFIGURATION,
        WaitReason.OUTBID,
        WaitReason.KEPT_BY_OTHERS,
        WaitReason.PLACE_KEPT,
        WaitReason.NOT_SAID,
    }
)


@dataclass(frozen=True)
class Wanted:
    """What waiting jobs of a pool would take if all its nodes were awake.

    nodes: those that sleep or are on their way back, each with the sentence of the first job that takes it.
    waiting: GPU types on which some job waits that all nodes together could run.
    idle: nodes awake that are idle and would be taken, by GPU type.
    """

    nodes: Mapping[str, str]
    waiting: frozenset[str]
    idle: Mapping[str, int]


def pool_of(node: Node, round: Round) -> str:
    """Return the pool of a node; a round of one pool may not repeat its name on each node."""
    return node.pool or round.cluster.pool or ""


def wanted(pool: str, round: Round, plan: Plan, returning: Collection[str]) -> Wanted:
    """Place the waiting jobs of a pool, in the order of the plan, over the nodes awake and then the others.

    Each takes its fixed or its least size. Nodes that are on their way back, by machine name, come before those
    that sleep. A job that not even the empty pool could run wakes nobody.
    """
    awake = tuple(node for node in round.cluster.nodes if pool_of(node, round) == pool)
    asleep = tuple(node for node in round.asleep if pool_of(node, round) == pool and node.gpus > 0)
    nodes, waiting, idle = dict[str, str](), set[str](), dict[str, int]()
    asking = _waiting(pool, round, plan)
    if (first := next(asking, None)) is None:
        return Wanted(nodes, frozenset(), idle)
    everything, real = _together(awake, asleep, frozenset(returning))
    ledger, empty = Ledger.of(everything, _within(plan, everything)), Ledger(everything)
    left, touched, blocked = len(asleep), set[str](), False
    for asked, job in enumerate((first, *asking)):
        if asked >= MOST_ASKED:
            break
        if waiting and (not asleep or (blocked and _is_behind(plan, job.id))):
            break  # none can wake, and none of these may sleep; or nobody overtakes the job that waits
        room = _room(ledger, job)
        if room is None:
            if (possible := _room(empty, job)) is not None:
                waiting.add(possible.gpu_type)
                blocked = True
            continue
        waiting.add(room.gpu_type)
        before = {share.node_id: ledger.idle_on(share.node_id) for share in room.shares}
        ledger.take(job.id, room)
        gpus = n_gpus(room.gpus)
        for share in room.shares:
            node = real[share.node_id]
            if share.node_id.startswith(_LAST):
                if node.machine_name not in nodes:
                    nodes[node.machine_name] = f"Job {job.id} waits for {gpus} of type {room.gpu_type}."
                    left -= 1
            elif before[share.node_id] == node.gpus and share.node_id not in touched:
                idle[room.gpu_type] = idle.get(room.gpu_type, 0) + 1
            touched.add(share.node_id)
        if asleep and not left:
            waiting |= set(everything.gpu_types)
            break
    return Wanted(nodes, frozenset(waiting), idle)


def idle_nodes(round: Round, plan: Plan) -> list[Node]:
    """Return the nodes with GPUs on which nothing runs and nothing is planned, the last to be used first."""
    busy = {share.node_id for placement in plan.placements.values() for share in placement.shares}
    for placement in round.columns.placements.tolist():
        if placement is not None:
            busy.update(share.node_id for share in placement.shares)
    return [node for node in reversed(round.cluster.nodes) if node.gpus > 0 and node.id not in busy]


def _waiting(pool: str, round: Round, plan: Plan) -> Iterator[JobView]:
    """Yield the jobs of a pool that wait for room, in the order in which the policy serves them."""
    whole = round.cluster.pool is not None  # a round of one pool has its jobs alone
    own: Sequence[int] = range(len(round.jobs))
    if not whole:
        own = [i for i, job in enumerate(round.jobs) if (job.spec.pool or "") == pool]
    part = plan if whole or not plan.pools else plan.pools.get(pool, plan)
    order: Sequence[int] = range(len(own))
    if part.order is not None and len(part.order) <= len(own):
        order = part.order.tolist()
    ids = round.columns.ids
    for at in order:
        if at >= len(own) or (id := ids[own[at]]) in plan.placements:
            continue
        # A policy that serves jobs in an order leaves out only those for which there is no room.
        decision = None if part.order is not None else plan.decision(id)
        if decision is None or (isinstance(decision, Waiting) and decision.reason in HELPED):
            yield round.jobs[own[at]]


def _is_behind(plan: Plan, job: str) -> bool:
    decision = plan.decision(job)
    return isinstance(decision, Waiting) and decision.reason is WaitReason.BEHIND_OTHERS


def _room(ledger: Ledger, job: JobView) -> Placement | None:
    gpus = job.spec.asked_gpus
    found = ledger.find(gpus, types_for(job.spec, gpus, ledger.cluster), demand=Demand.of(job.spec))
    return found if found is not None and is_whole(found, job.spec) else None


@lru_cache(maxsize=64)
def _together(
    awake: tuple[Node, ...], asleep: tuple[Node, ...], returning: frozenset[str]
) -> tuple[Cluster, Mapping[str, Node]]:
    """Return all nodes, those that sleep last, and the node that each id stands for."""
    real = {node.id: node for node in awake}
    for node in asleep:
        real[f"{_LAST}{0 if node.machine_name in returning else 1}{node.id}"] = node
    return Cluster(tuple(replace(node, id=id) for id, node in real.items())), real


def _within(plan: Plan, cluster: Cluster) -> dict[str, Placement]:
    return {
        job: placement
        for job, placement in plan.placements.items()
        if placement.shares and placement.shares[0].node_id in cluster.by_id
    }
