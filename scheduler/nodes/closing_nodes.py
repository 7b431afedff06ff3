"""Takes and stores what closes nodes, and leaves those nodes out of what rounds see.

It takes orders of operators, maintenance windows, and notices of clouds. Each change is stored with its line in
the log before anyone acts on it, and so lasts over restarts of the service.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ...core.cluster import Cluster
from ...core.errors import NodeOrderError
from ...core.events import EventKind
from ...core.wording import span
from ..runtime.clock import Clock
from ..store.events import Event
from ..store.store import Store
from .closures import Closed, Closure, Source, moment
from .node_orders import LEAD_S, NodeOrders, NoticeGiven, Order, Window, closed_nodes
from .node_source import NodeSource
from .node_view import NodesSnapshot

FACT = "node_orders"
GONE_KEPT_S = 600.0  # a node that went after a notice stays known so long, for the jobs that were there
SAME_S = 2.0  # deadlines and clocks that differ by less are the same
SOON_S = 86_400.0  # windows that begin by then are told
SHORTEST_ID = 6  # characters of a node's id that name it
Told = tuple[bool, str]  # whether something has changed, and a sentence on it


class ClosingNodes:
    """A source of nodes over another one, without those that take no new work.

    Args:
        away: returns names of machines whose nodes are not there now, as they sleep.
    """

    def __init__(
        self,
        nodes: NodeSource,
        store: Store,
        clock: Clock,
        away: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._nodes, self._store, self._clock, self._away = nodes, store, clock, away
        self._lock = threading.RLock()
        self._ahead_s = clock.wall_s() - clock.steady_s()
        self.orders = self._read()
        self._closed: Mapping[str, Closed] = {}
        self._ticked: Mapping[str, Closed] = {}  # what was closed at the last tick
        self._made: tuple[NodesSnapshot, Mapping[str, Closed], NodesSnapshot] | None = None

    # --- what rounds see ------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> NodesSnapshot:
        """Return the newest snapshot. Equal nodes make the same cluster object, as policies cache by it."""
        nodes, made = self._nodes.snapshot, self._made
        found = self._find(nodes)
        closed = self._closed if found == self._closed else found
        machines = self._closed_machines()
        if made is not None and made[0] is nodes and made[1] is closed and made[2].closed_machines == machines:
            return made[2]
        kept = without_closed(nodes, closed, machines)
        if made is not None and kept.cluster == made[2].cluster:
            kept = replace(kept, cluster=made[2].cluster)
        self._closed, self._made = closed, (nodes, closed, kept)
        return kept

    def _find(self, nodes: NodesSnapshot) -> dict[str, Closed]:
        return closed_nodes(
            nodes.cluster.nodes, self.orders, nodes.drained_by_ray, self._clock.steady_s(), self._ahead_s
        )

    def _closed_machines(self) -> frozenset[str]:
        wall_s = self._clock.steady_s() + self._ahead_s
        windows = (window.machines for window in self.orders.windows if window.is_on(wall_s))
        return frozenset(self.orders.orders).union(*windows)

    # --- orders of operators --------------------------------------------------------------------------------

    def cordon(self, name: str, who: str = "", why: str = "") -> Told:
        """Give a machine no new work; what runs there stays. Raises: KeyError for an unknown one."""
        with self._lock:
            machine, now = self.machine_of(name), self._clock.steady_s()
            if (known := self.orders.orders.get(machine)) is not None:
                return False, f"{machine} is {known.closure.told(self._ahead_s)} already"
            order = Order(machine, who, why, now)
            return True, self._put(order, f"{machine} gets no new work: {order.closure.told()}", who)

    def drain(self, name: str, deadline_s: float | None = None, who: str = "", why: str = "") -> Told:
        """Give a machine no new work, and have what runs there leave.

        Args:
            deadline_s: by when it must have left, from now; None: as it does when it moves.

        Raises: KeyError for an unknown machine; NodeOrderError for a deadline that has passed.
        """
        if deadline_s is not None and not deadline_s > 0:
            raise NodeOrderError(
                f"deadline: {span(-deadline_s)} ago is in the past; it must be after now, such as 10m"
            )
        with self._lock:
            machine, now = self.machine_of(name), self._clock.steady_s()
            until_s = None if deadline_s is None else now + deadline_s
            known = self.orders.orders.get(machine)
            if known is not None and known.drains and _same(known.deadline_s, until_s):
                return False, f"{machine} is {known.closure.told(self._ahead_s)} already"
            order = Order(machine, who, why or (known.why if known else ""), now, True, until_s)
            told = f"{machine} is {order.closure.told(self._ahead_s)}"
            if known is not None and known.drains:
                told += f"; before, it was {known.closure.told(self._ahead_s)}"
            return True, self._put(order, told, who)

    def uncordon(self, name: str, who: str = "") -> Told:
        """Take back what `cordon` or `drain` has done. Raises: KeyError; NodeOrderError where others close it."""
        with self._lock:
            machine = self.machine_of(name)
            others = [one for one in self._reasons(machine) if one.source is not Source.OPERATOR]
            left = f", but it stays closed: {others[0].told(self._ahead_s)}" if others else ""
            if machine not in self.orders.orders:
                if others:
                    raise NodeOrderError(f"{machine} was not cordoned by an operator{left}")
                return False, f"{machine} takes work already"
            kept = {name: order for name, order in self.orders.orders.items() if name != machine}
            told = f"{machine} takes work again{left}" if not left else f"{machine} is not cordoned any more{left}"
            self._write(replace(self.orders, orders=kept), [told], who)
            return True, told

    def machine_of(self, name: str) -> str:
        """Return the machine of a name or of the beginning of a node's id. Raises: KeyError."""
        here = self._nodes.snapshot.machines
        if name in {*here.values(), *self.orders.orders, *self._away()}:
            return name
        found = {machine for id, machine in here.items() if len(name) >= SHORTEST_ID and id.startswith(name)}
        if len(found) != 1:
            raise KeyError(f"no node {name}; `coadapt node list` shows all")
        return found.pop()

    def _reasons(self, machine: str) -> Sequence[Closure]:
        ids = [id for id, name in self._nodes.snapshot.machines.items() if name == machine]
        closed = self._find(self._nodes.snapshot)
        return [reason for id in ids if id in closed for reason in closed[id].reasons]

    def _put(self, order: Order, told: str, who: str) -> str:
        said = tuple(one for one in self.orders.told if one != _empty(order.machine))
        orders = {**self.orders.orders, order.machine: order}
        self._write(replace(self.orders, orders=orders, told=said), [told], who)
        return told

    # --- maintenance windows --------------------------------------------------------------------------------

    def add_window(
        self,
        begins_s: float,
        ends_s: float,
        machines: Sequence[str] = (),
        gpu_type: str = "",
        lead_s: float = LEAD_S,
        who: str = "",
        why: str = "",
    ) -> Window:
        """Keep machines, or all of a GPU type, free from one moment to another, by the wall clock.

        Raises: KeyError for an unknown machine; NodeOrderError for another window that cannot be.
        """
        with self._lock:
            wall_s = self._clock.wall_s()
            named = tuple(dict.fromkeys(self.machine_of(name) for name in machines))
            _check_window(begins_s, ends_s, lead_s, wall_s, named, gpu_type)
            types = {node.gpu_type for node in self._nodes.snapshot.cluster.nodes}
            if gpu_type and gpu_type not in types:
                known = ", ".join(sorted(types)) or "none now"
                raise NodeOrderError(f"gpu_type: no node has {gpu_type}; known: {known}")
            number = self.orders.numbered + 1
            window = Window(f"w{number}", begins_s, ends_s, named, gpu_type, lead_s, who, why)
            told = f"maintenance window {window.id} is set for {window.target}, {_spelled(window)}"
            windows = (*self.orders.windows, window)
            self._write(replace(self.orders, windows=windows, numbered=number), [told], who)
            return window

    def remove_window(self, id: str, who: str = "") -> Window:
        """Forget a window; its nodes take work again. Raises: KeyError."""
        with self._lock:
            found = next((window for window in self.orders.windows if window.id == id), None)
            if found is None:
                raise KeyError(f"no maintenance window {id}; `coadapt node window list` shows all")
            rest = tuple(window for window in self.orders.windows if window is not found)
            told = f"maintenance window {id} for {found.target} is taken back"
            self._write(replace(self.orders, windows=rest), [told], who)
            return found

    # --- notices of clouds ----------------------------------------------------------------------------------

    def take_notice(self, node_id: str, what: str, left_s: float) -> bool:
        """Take what a node's cloud tells: it goes away in so many seconds. Return whether that is new."""
        with self._lock:
            machine = self._nodes.snapshot.machines.get(node_id)
            now = self._clock.steady_s()
            known = self.orders.notices.get(node_id)
            if machine is None or (known is not None and abs(known.deadline_s - now - left_s) < SAME_S):
                return False
            given = NoticeGiven(node_id, machine, what, now, now + left_s)
            told = f"{machine} goes away in {span(left_s)}: {what}"
            self._write(replace(self.orders, notices={**self.orders.notices, node_id: given}), [told], "cloud")
            return True

    def no_notice(self, node_id: str) -> bool:
        """Take that a node's cloud tells of no notice any more. Return whether that is new."""
        with self._lock:
            known = self.orders.notices.get(node_id)
            if known is None or known.gone:
                return False
            told = f"{known.machine}: its {known.what} is withdrawn, and it takes work again"
            rest = {id: one for id, one in self.orders.notices.items() if id != node_id}
            self._write(replace(self.orders, notices=rest), [told], "cloud")
            return True

    # --- time -----------------------------------------------------------------------------------------------

    def tick(self, busy: Callable[[], Mapping[str, str]]) -> bool:
        """Let windows begin and end, and notice which nodes are left. Return whether other nodes are closed now.

        Args:
            busy: returns what is on each node, by its id.
        """
        with self._lock:
            nodes = self._nodes.snapshot
            if not nodes.ready:
                return False
            now = self._clock.steady_s()
            ahead_s = self._clock.wall_s() - now
            if abs(ahead_s - self._ahead_s) > SAME_S:
                self._ahead_s = ahead_s
            before = self._ticked
            orders, told = self._grown_old(nodes, now)
            closed = closed_nodes(nodes.cluster.nodes, orders, nodes.drained_by_ray, now, self._ahead_s)
            true = self._not_by_orders(closed) | self._left_empty(closed, nodes, busy)
            told += [sentence for mark, sentence in true.items() if mark not in orders.told]
            if orders.told != tuple(true):
                orders = replace(orders, told=tuple(true))
            if orders is not self.orders or told:
                self._write(orders, told)
            self._ticked = closed
            return closed != before

    def _grown_old(self, nodes: NodesSnapshot, now: float) -> tuple[NodeOrders, list[str]]:
        """Return what is stored without what is over, and sentences on that."""
        orders, told = self.orders, list[str]()
        if over := [window for window in orders.windows if window.ends_s <= now + self._ahead_s]:
            windows = tuple(window for window in orders.windows if window not in over)
            orders = replace(orders, windows=windows)
            told += [f"maintenance window {window.id} is over: {window.target} may take work" for window in over]
        notices = dict[str, NoticeGiven]()
        for id, notice in orders.notices.items():
            if id in nodes.alive:
                if notice.gone and now < notice.deadline_s:
                    notices[id] = replace(notice, gone=False)
                elif not notice.gone:
                    notices[id] = notice
            elif not notice.gone:
                notices[id] = replace(notice, gone=True, since_s=now)
                told.append(f"{notice.machine} has gone, as its {notice.what} told")
            elif now - notice.since_s < GONE_KEPT_S:
                notices[id] = notice
        return orders if notices == orders.notices else replace(orders, notices=notices), told

    def _not_by_orders(self, closed: Mapping[str, Closed]) -> dict[str, str]:
        """Return a mark and a sentence for each reason that comes by itself: windows, and Ray."""
        return {
            f"{one.machine} is {one.what}": f"{one.machine} is {one.told(self._ahead_s)}"
            for found in closed.values()
            for one in found.reasons
            if one.source in (Source.WINDOW, Source.RAY)
        }

    def _left_empty(
        self, closed: Mapping[str, Closed], nodes: NodesSnapshot, busy: Callable[[], Mapping[str, str]]
    ) -> dict[str, str]:
        """Return a mark and a sentence for each machine that had to be left, once nothing runs there."""
        leaving = {id: one.machine for id, one in closed.items() if one.leaves and id in nodes.alive}
        known = {machine for machine in leaving.values() if _empty(machine) in self.orders.told}
        if open_still := set(leaving.values()) - known:
            there = busy()
            known |= open_still - {machine for id, machine in leaving.items() if id in there}
        return {_empty(machine): f"{_empty(machine)}: nothing runs there any more" for machine in sorted(known)}

    def notes(self) -> list[str]:
        """Return sentences for `coadapt cluster` on what no node shows: what is away, and windows to come."""
        here, wall_s = set(self._nodes.snapshot.machines.values()), self._clock.steady_s() + self._ahead_s
        away = [order.closure for machine, order in sorted(self.orders.orders.items()) if machine not in here]
        notes = [f"{one.machine} is away, and stays {one.told(self._ahead_s)}" for one in away]
        return notes + [
            f"maintenance window {one.id} for {one.target} is {_spelled(one)}; jobs leave from "
            f"{moment(one.begins_s - one.lead_s)} on"
            for one in sorted(self.orders.windows, key=lambda one: one.begins_s)
            if wall_s < one.begins_s - one.lead_s < wall_s + SOON_S
        ]

    # --- inside ---------------------------------------------------------------------------------------------

    def _read(self) -> NodeOrders:
        try:
            return NodeOrders.from_json(self._store.read_fact(FACT))
        except (ValueError, KeyError, TypeError) as error:
            why = f"orders for nodes cannot be read and are forgotten: {type(error).__name__}: {error}"
            self._store.log(Event(EventKind.ERROR, self._clock.steady_s(), None, {"text": why}))
            return NodeOrders()

    def _write(self, orders: NodeOrders, told: Sequence[str], who: str = "") -> None:
        now = self._clock.steady_s()
        with self._store.together():
            if orders is not self.orders:
                self._store.write_fact(FACT, orders.to_json())
            self._store.log(*(Event(EventKind.NODE, now, None, {"text": text}, who=who) for text in told))
        self.orders = orders


def _empty(machine: str) -> str:
    return f"{machine} is empty"


def without_closed(nodes: NodesSnapshot, closed: Mapping[str, Closed], machines: frozenset[str]) -> NodesSnapshot:
    """Return nodes without those that take no new work, and with why they do not. `machines`: kept closed."""
    if not closed and not machines:
        return nodes
    here = tuple(node for node in nodes.cluster.nodes if node.id not in closed)
    return replace(
        nodes,
        cluster=nodes.cluster if len(here) == len(nodes.cluster.nodes) else Cluster(here),
        closed=closed,
        closed_nodes=tuple(node for node in nodes.cluster.nodes if node.id in closed),
        closed_machines=machines,
        draining=nodes.draining.union(id for id, one in closed.items() if one.leaves),
    )


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) < SAME_S


def _spelled(window: Window) -> str:
    return f"from {moment(window.begins_s)} to {moment(window.ends_s)}"


def _check_window(
    begins_s: float, ends_s: float, lead_s: float, wall_s: float, machines: Sequence[str], gpu_type: str
) -> None:
    """Raise NodeOrderError for a window that cannot be."""
    if not machines and not gpu_type:
        raise NodeOrderError("nodes: none is named; name machines, or a GPU type by --gpu-type")
    if not ends_s > wall_s:
        raise NodeOrderError(f"to: {moment(ends_s)} is in the past; it must be after now")
    if not ends_s > begins_s:
        raise NodeOrderError(f"to: {moment(ends_s)} is not after {moment(begins_s)}, when the window begins")
    if not lead_s >= 0:
        raise NodeOrderError(f"lead: {lead_s:g} s is below 0; it is 0 or more")
