"""What one more node of each type is worth: by the jobs that wait for it, or by the prices of rounds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...core.cluster import Cluster, Node
from ...core.placement import Placement
from ...core.scaling_settings import NodeType
from ...core.teams import kind_of
from ...core.wording import n_gpus
from ...policies.contract.round import JobView, Plan, Round
from ...policies.placing.demand import Demand
from ...policies.placing.ledger import Ledger
from ...policies.placing.speeds import is_whole, rates_of, types_for

NEW = "\uffff"  # ids of nodes that are not there come last, so that jobs take those that are
MOST_ASKED = 64  # waiting jobs that are looked at in one round


@dataclass(frozen=True)
class Worth:
    """What nodes of one type would bring.

    type: the name of the node type. nodes: how many.
    value: of one of them: jobs that it serves, each by its speed there, or units of a policy's objective.
    per_dollar: value for a dollar.
    reason: a clause for people.
    jobs: those that are served.
    """

    type: str
    nodes: int
    value: float
    per_dollar: float
    reason: str
    jobs: frozenset[str] = frozenset()


def new_nodes(name: str, type: NodeType, count: int, mark: str = "") -> list[Node]:
    """Return nodes of a type that are not there."""
    return [
        Node(
            f"{NEW}{name}-{mark}{i:04d}",
            type.gpu_type,
            type.gpus,
            type.cpus,
            type.memory_gib,
            pool=type.pool,
            machine=f"{name}-{mark}{i:04d}",
        )
        for i in range(count)
    ]


def least_gpus(job: JobView) -> int:
    """Return what a job must have at least."""
    return job.spec.asked_gpus


def waiting_jobs(round: Round, plan: Plan) -> list[JobView]:
    """Return jobs that a round gave nothing and that have nothing, in the order of the policy."""
    order: Iterable[int] = range(len(round.jobs))
    if plan.order is not None and len(plan.order) == len(round.jobs):
        order = plan.order.tolist()
    ids, held = round.columns.ids, round.columns.placements
    found: list[JobView] = []
    for at in order:
        if held[at] is None and ids[at] not in plan.placements:
            found.append(round.jobs[at])
            if len(found) == MOST_ASKED:
                break
    return found


def without_room(jobs: Sequence[JobView], round: Round, plan: Plan, coming: Sequence[Node]) -> list[JobView]:
    """Return the jobs that neither free GPUs nor nodes that come will do for.

    Args:
        coming: nodes that are asked for.
    """
    left: list[JobView] = []
    for pool, asking in _by_pool(jobs).items():
        cluster = Cluster((*_of_pool(round, pool), *(node for node in coming if node.pool == pool)))
        ledger = Ledger.of(cluster, _within(plan, cluster))
        for job in asking:
            if (room := _room(ledger, job)) is None:
                left.append(job)
            else:
                ledger.take(job.id, room)
    return left


def stranded(jobs: Sequence[JobView], round: Round, coming: Sequence[Node]) -> list[JobView]:
    """Return the jobs that would not even fit if nobody else was there."""
    left: list[JobView] = []
    for pool, asking in _by_pool(jobs).items():
        empty = Ledger(Cluster((*_of_pool(round, pool), *(node for node in coming if node.pool == pool))))
        left += [job for job in asking if _room(empty, job) is None]
    return left


@dataclass(frozen=True)
class Asking:
    """What a round leaves to be bought for: jobs that wait for room, and all types that nodes may be of."""

    jobs: Sequence[JobView]
    round: Round
    plan: Plan
    types: Mapping[str, NodeType]

    @cached_property
    def anything(self) -> Mapping[str, Cluster]:
        """Return each pool's nodes as if all that its types allow were there."""
        return {
            pool: Cluster(
                (
                    *_of_pool(self.round, pool),
                    *(n for name, t in self.types.items() if t.pool == pool for n in new_nodes(name, t, t.max)),
                )
            )
            for pool in {type.pool for type in self.types.values()}
        }


def by_waiting(name: str, most: int, keeps: float, asking: Asking) -> Worth | None:
    """Return what nodes of a type would be worth to waiting jobs; None: none of them could use one.

    A job counts by its speed on this type, relative to the fastest type of which one knows. A type on which it
    was not measured counts as the fastest.

    Args:
        most: nodes that may be bought.
        keeps: the part of its worth that is left after notices of its cloud.
    """
    type, round, busy = asking.types[name], asking.round, _busy(asking.plan)
    mine = [job for job in asking.jobs if (job.spec.pool or "") == type.pool]
    idle = tuple(n for n in _of_pool(round, type.pool) if n.gpu_type == type.gpu_type and n.id not in busy)
    new = new_nodes(name, type, most)
    if not mine or not new:
        return None
    ledger, touched = Ledger(Cluster((*idle, *new))), set[str]()
    value, served = 0.0, list[JobView]()
    for job in mine:
        if (room := _room(ledger, job)) is None:
            continue
        ledger.take(job.id, room)
        here = {share.node_id for share in room.shares if share.node_id.startswith(NEW)}
        if here:
            touched |= here
            value += _speed(job, type.gpu_type, asking.anything[type.pool])
            served.append(job)
    if not touched:
        return None
    each = keeps * value / len(touched)
    first = served[0]
    others = f" and {len(served) - 1} more" if len(served) > 1 else ""
    reason = f"job {first.id}{others} waited for {n_gpus(least_gpus(first))} of type {type.gpu_type}"
    return Worth(name, len(touched), each, each / type.price_per_h, reason, frozenset(job.id for job in served))


def by_price(name: str, type: NodeType, keeps: float, prices: Mapping[str, float], rounds: int) -> Worth:
    """Return what one more node is worth by the mean prices of a GPU in the last rounds.

    A type without a price counts as the cheapest one that has one, as no less is known of it.
    """
    key = kind_of(type.gpu_type, type.pool)
    each = prices.get(key, min(prices.values(), default=0.0))
    value = keeps * each * type.gpus
    told = f"a GPU of type {type.gpu_type} was worth {each:.3g} in the last {rounds} rounds"
    if key not in prices:
        told = f"a GPU was worth {each:.3g} or more in the last {rounds} rounds"
    return Worth(name, 1, value, value / type.price_per_h, told)


def keeps_of(notices_per_h: float, lost_s: float) -> float:
    """Return the part of a node's worth that is left, if each notice costs its jobs so many seconds."""
    return max(1.0 - notices_per_h * lost_s / 3600.0, 0.0)


def lost_at_notice_s(round: Round) -> float:
    """Return what a job loses at a notice: the mean pause of a restart, seconds."""
    costs = [round.jobs[i].restart_cost_s for i in range(min(len(round.jobs), MOST_ASKED))]
    return sum(costs) / len(costs) if costs else 0.0


def _speed(job: JobView, gpu_type: str, cluster: Cluster) -> float:
    rates = dict(zip(cluster.gpu_types, rates_of(job, least_gpus(job), cluster).tolist(), strict=True))
    best, mine = max(rates.values(), default=0.0), rates.get(gpu_type, 0.0)
    return mine / best if mine > 0 else 1.0


def _by_pool(jobs: Sequence[JobView]) -> Mapping[str, list[JobView]]:
    found: dict[str, list[JobView]] = {}
    for job in jobs:
        found.setdefault(job.spec.pool or "", []).append(job)
    return found


def _of_pool(round: Round, pool: str) -> tuple[Node, ...]:
    named = round.cluster.pool  # a round of one pool may not repeat its name on each node
    return tuple(node for node in round.cluster.nodes if (node.pool or named or "") == pool)


def _busy(plan: Plan) -> frozenset[str]:
    return frozenset(share.node_id for placement in plan.placements.values() for share in placement.shares)


def _room(ledger: Ledger, job: JobView) -> Placement | None:
    gpus = least_gpus(job)
    found = ledger.find(gpus, types_for(job.spec, gpus, ledger.cluster), demand=Demand.of(job.spec))
    return found if found is not None and is_whole(found, job.spec) else None


def _within(plan: Plan, cluster: Cluster) -> dict[str, Placement]:
    return {
        job: placement
        for job, placement in plan.placements.items()
        if placement.shares and placement.shares[0].node_id in cluster.by_id
    }
