"""What is stored of nodes that take no new work: orders of operators, maintenance windows, notices. Pure.

Orders and windows name machines, whose names survive a reboot. A notice belongs to one life of a node, by its id.
Moments are seconds since 1970 by the steady clock, but those of windows, which people set by the wall clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field

from ...core.cluster import Node
from .closures import Closed, Closure, Source, moment, together

LEAD_S = 600.0  # before a window, in which what runs leaves


@dataclass(frozen=True)
class Order:
    """An operator's order for one machine.

    drains: whether what runs there has to leave; else it only gets no new work.
    deadline_s: by when it must have left; None: there is no hurry.
    """

    machine: str
    who: str
    why: str
    since_s: float
    drains: bool = False
    deadline_s: float | None = None

    @property
    def closure(self) -> Closure:
        """Return what it makes of the machine's nodes."""
        by = f" by {self.who}" if self.who else ""
        what = f"{'drained' if self.drains else 'cordoned'}{by}"
        return Closure(Source.OPERATOR, self.machine, what, self.why, self.drains, self.deadline_s)


@dataclass(frozen=True)
class Window:
    """A time in which machines are looked after. Moments by the wall clock.

    machines, gpu_type: those of these names, and all of this type; "": of none.
    lead_s: how long before its begin nodes are drained.
    """

    id: str
    begins_s: float
    ends_s: float
    machines: tuple[str, ...] = ()
    gpu_type: str = ""
    lead_s: float = LEAD_S
    who: str = ""
    why: str = ""

    def holds(self, node: Node) -> bool:
        """Return whether a node is of this window."""
        return node.machine_name in self.machines or (bool(self.gpu_type) and node.gpu_type == self.gpu_type)

    def is_on(self, wall_s: float) -> bool:
        """Return whether its nodes are closed at a moment, as it is about to begin or has begun."""
        return self.begins_s - self.lead_s <= wall_s < self.ends_s

    def closure(self, machine: str, wall_s: float, ahead_s: float) -> Closure | None:
        """Return what it makes of a node at a moment; None: nothing yet, or no longer."""
        if not self.is_on(wall_s):
            return None
        by = f", set by {self.who}" if self.who else ""
        what = f"in maintenance window {self.id} until {moment(self.ends_s)}{by}"
        if wall_s < self.begins_s:
            what = f"drained for maintenance window {self.id}{by}"
        # What is there when the window begins is late, and has to leave all the same.
        deadline_s = self.begins_s - ahead_s if wall_s < self.begins_s else None
        return Closure(Source.WINDOW, machine, what, self.why, leaves=True, deadline_s=deadline_s)

    @property
    def target(self) -> str:
        """What people call the machines."""
        types = [f"all {self.gpu_type} nodes"] if self.gpu_type else []
        return ", ".join([*self.machines, *types])


@dataclass(frozen=True)
class NoticeGiven:
    """What a node's cloud has told: it takes the node away.

    what: a clause such as "spot notice of aws (terminate)".
    gone: whether the node has gone since.
    """

    node_id: str
    machine: str
    what: str
    since_s: float
    deadline_s: float
    gone: bool = False

    @property
    def closure(self) -> Closure:
        """Return what it makes of the node."""
        return Closure(Source.NOTICE, self.machine, self.what, leaves=True, deadline_s=self.deadline_s)


@dataclass(frozen=True)
class NodeOrders:
    """Everything that is stored of closed nodes.

    numbered: windows that there have been.
    told: what the log says of machines that is still so, so that the next service does not say it again.
    """

    orders: Mapping[str, Order] = field(default_factory=dict)  # by machine
    windows: tuple[Window, ...] = ()
    notices: Mapping[str, NoticeGiven] = field(default_factory=dict)  # by node id
    numbered: int = 0
    told: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(
            {
                "orders": [asdict(order) for order in self.orders.values()],
                "windows": [asdict(window) for window in self.windows],
                "notices": [asdict(notice) for notice in self.notices.values()],
                "numbered": self.numbered,
                "told": list(self.told),
            }
        )

    @classmethod
    def from_json(cls, text: str | None) -> NodeOrders:
        """Return what `to_json` wrote; nothing for None. Raises: ValueError, KeyError or TypeError."""
        if text is None:
            return cls()
        row = json.loads(text)
        orders = [Order(**one) for one in row["orders"]]
        windows = [Window(**one | {"machines": tuple(one["machines"])}) for one in row["windows"]]
        notices = [NoticeGiven(**one) for one in row["notices"]]
        return cls(
            {one.machine: one for one in orders},
            tuple(windows),
            {one.node_id: one for one in notices},
            row["numbered"],
            tuple(row.get("told", ())),
        )


def closed_nodes(
    nodes: Iterable[Node],
    found: NodeOrders,
    drained_by_ray: Mapping[str, float | None],
    now: float,
    ahead_s: float = 0.0,
) -> dict[str, Closed]:
    """Return the nodes that take no new work, by id. Nodes that went after a notice are among them.

    Args:
        drained_by_ray: nodes that Ray drains, and until when by the wall clock; None: it is not told.
        ahead_s: by how much the wall clock is ahead of the steady one.
    """
    if not (found.orders or found.windows or found.notices or drained_by_ray):
        return {}
    gone = {id: Closed((one.closure,)) for id, one in found.notices.items() if one.gone}
    reasons = ((node.id, together(_reasons(node, found, drained_by_ray, now, ahead_s))) for node in nodes)
    return gone | {id: closed for id, closed in reasons if closed is not None}


def _reasons(
    node: Node, found: NodeOrders, drained_by_ray: Mapping[str, float | None], now: float, ahead_s: float
) -> Iterator[Closure]:
    """Yield each reason for which a node is closed."""
    machine = node.machine_name
    if (order := found.orders.get(machine)) is not None:
        yield order.closure
    for window in found.windows:
        if window.holds(node) and (one := window.closure(machine, now + ahead_s, ahead_s)) is not None:
            yield one
    if (notice := found.notices.get(node.id)) is not None:
        yield notice.closure
    if node.id in drained_by_ray:
        until_s = drained_by_ray[node.id]
        deadline_s = None if until_s is None else until_s - ahead_s
        yield Closure(Source.RAY, machine, "drained by Ray", leaves=True, deadline_s=deadline_s)
