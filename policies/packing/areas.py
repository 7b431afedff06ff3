"""Which nodes measure new jobs, and which run jobs of each pool."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ...core.cluster import Cluster, Node
from ...core.placement import Placement
from .profiler import ProfilerOptions
from .tenants import Tenants

MOST_OF_NODES = 4  # at most one of so many nodes measures new jobs


def profiling_nodes(cluster: Cluster, options: ProfilerOptions) -> tuple[str, ...]:
    """Return the ids of the nodes that measure new jobs, one of each of the largest pools by turns.

    Raises:
        ValueError: the pool of the options has no nodes.
    """
    if options.pool is not None:
        own = tuple(node.id for node in cluster.nodes if node.pool == options.pool)
        if not own:
            here = ", ".join(filter(None, cluster.pools)) or "none"
            raise ValueError(
                f"profiler.pool: {options.pool!r} is no pool with nodes; pools of the cluster: {here}"
            )
        return own
    pools: dict[str, list[Node]] = {}
    for node in cluster.nodes:
        pools.setdefault(node.pool, []).append(node)
    order = sorted(pools, key=lambda name: (-len(pools[name]), name))
    found: list[str] = []
    most = min(options.nodes, len(cluster.nodes) // MOST_OF_NODES)
    while len(found) < most:
        before = len(found)
        for name in order:
            if len(found) < most and len(pools[name]) > 1:
                found.append(pools[name].pop().id)
        if len(found) == before:
            break
    return tuple(sorted(found))


@dataclass
class Areas:
    """The nodes of a cluster by what they are for. `borrowed`: nodes of pools that measure jobs for a while."""

    cluster: Cluster
    options: ProfilerOptions
    base: tuple[str, ...] = ()
    borrowed: tuple[str, ...] = ()
    profiler: Tenants | None = None
    pools: dict[str, Tenants] = field(default_factory=dict)
    _seen: Mapping[str, Placement] = field(default_factory=dict)
    _where: dict[str, Tenants] = field(default_factory=dict)  # node -> the account that it is in

    def __post_init__(self) -> None:
        self.base = profiling_nodes(self.cluster, self.options)
        self._divide()

    def borrow(self, node: str) -> None:
        """Let an idle node of a pool measure new jobs."""
        self.borrowed = (*self.borrowed, node)
        self._divide()

    def give_back(self, nodes: Collection[str]) -> None:
        """Let borrowed nodes belong to their pools again."""
        self.borrowed = tuple(node for node in self.borrowed if node not in nodes)
        self._divide()

    def _divide(self) -> None:
        held = self.held
        measuring = {*self.base, *self.borrowed}
        own = tuple(node for node in self.cluster.nodes if node.id in measuring)
        self.profiler = Tenants(Cluster(own)) if own else None
        rest: dict[str, list[Node]] = {pool: [] for pool in self.cluster.pools if pool != self.options.pool}
        for node in self.cluster.nodes:
            if node.id not in measuring:
                rest.setdefault(node.pool, []).append(node)
        self.pools = {pool: Tenants(Cluster(tuple(nodes), pool)) for pool, nodes in rest.items()}
        self._where = {node.id: tenants for tenants in self.every for node in tenants.cluster.nodes}
        self.follow(held)

    @property
    def every(self) -> list[Tenants]:
        """Return the accounts of all areas."""
        return [*([self.profiler] if self.profiler is not None else []), *self.pools.values()]

    def is_measured(self, placement: Placement) -> bool:
        """Return whether a placement is on nodes that measure new jobs."""
        own = self.profiler
        return own is not None and all(share.node_id in own.cluster.by_id for share in placement.shares)

    def follow(self, held: Mapping[str, Placement]) -> None:
        """Take over what jobs hold now."""
        seen, changed = self._seen, set[str]()
        for job, at in held.items():
            if (before := seen.get(job)) is not at:
                changed |= {at.shares[0].node_id, *([] if before is None else [before.shares[0].node_id])}
        if len(held) < len(seen) or len(changed):
            changed |= {at.shares[0].node_id for job, at in seen.items() if job not in held}
        self._seen = held
        where = self._where
        dirty = {id(where[node]) for node in changed if node in where}
        dirty |= {id(tenants) for tenants in self.every if tenants.touched}
        if not dirty:
            return
        parts: dict[int, dict[str, Placement]] = {at: {} for at in dirty}
        for job, at in held.items():
            own = parts.get(id(where.get(at.shares[0].node_id)))
            if own is not None:
                own[job] = at
        for tenants in self.every:
            if id(tenants) in parts:
                tenants.follow(parts[id(tenants)])

    @property
    def held(self) -> dict[str, Placement]:
        """Return what each job holds."""
        return {job: at for tenants in self.every for job, at in tenants.held.items()}

    def idle_borrowed(self) -> list[str]:
        """Return the borrowed nodes on which no job is."""
        own = self.profiler
        busy = set() if own is None else {share.node_id for at in own.held.values() for share in at.shares}
        return [node for node in self.borrowed if node not in busy]

    def idle_nodes(self) -> dict[str, list[str]]:
        """Return the nodes of each pool on which no job is, by pool."""
        found: dict[str, list[str]] = {}
        for pool, tenants in self.pools.items():
            busy = {share.node_id for at in tenants.held.values() for share in at.shares}
            found[pool] = [node.id for node in tenants.cluster.nodes if node.id not in busy]
        return found
