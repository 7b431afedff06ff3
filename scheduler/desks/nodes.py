"""Takes what operators want of machines: power, cordons and drains, and maintenance windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.identity import Reader
from ..access.others_jobs import OthersJobs
from ..cycle import SchedulingCycle
from ..nodes.closing_nodes import ClosingNodes, Told
from ..nodes.node_orders import LEAD_S
from ..nodes.node_source import NodeSource
from ..nodes.powering import Powering
from ..runtime.clock import Clock
from ..runtime.degraded import StoreWatch
from ..views import closed_views
from .moments import Moments


class NodesDesk:
    """Answers for machines, and takes orders for them.

    Args:
        in_use: returns what is on each node, by its id.
        woken: called when the loop has something to do.
        nodes_changed: called when rounds see other nodes.
    """

    def __init__(
        self,
        cycle: SchedulingCycle,
        nodes: NodeSource,
        clock: Clock,
        moments: Moments,
        watch: StoreWatch,
        power: Powering,
        closing: ClosingNodes,
        others: OthersJobs,
        in_use: Callable[[], Mapping[str, str]],
        woken: Callable[[], None],
        nodes_changed: Callable[[], None],
    ) -> None:
        self._cycle, self._nodes, self._clock, self._moments, self._watch = cycle, nodes, clock, moments, watch
        self._power, self._closing, self._others = power, closing, others
        self._in_use, self._woken, self._nodes_changed = in_use, woken, nodes_changed

    def machines(self, reader: Reader | None = None) -> Sequence[dict[str, Any]]:
        """Return a `core.schemas.MachineRow` of every machine, also of those whose nodes sleep.

        Args:
            reader: without names of jobs that this user may not read.
        """
        rows = [dict(row) for row in self._power.rows()]
        found = closed_views.with_closed(rows, self._nodes.snapshot, self._moments.ahead_s)
        if reader is not None:
            found = [{**row, "reason": self._others.hidden(row["reason"], reader)} for row in found]
        return self._moments.shown(found)

    def power(self, verb: str, machine: str) -> bool:
        """Do one of `sleep`, `wake`, `keep`, `unkeep` and `forget` to a machine. Return whether that is new.

        Raises: KeyError for an unknown machine; PowerError where it cannot be done.
        """
        with self._cycle.lock:
            done = self._power.order(verb, machine, self._in_use(), self._clock.steady_s())
        self._woken()
        return done

    def cordon(self, node: str, who: str = "", why: str = "") -> dict[str, Any]:
        """Give a node no new work. Raises: KeyError for an unknown one; StateError."""
        return self._order(lambda: self._closing.cordon(node, who, why))

    def drain(self, node: str, deadline_s: float | None = None, who: str = "", why: str = "") -> dict[str, Any]:
        """Have a node left, by a deadline in seconds from now. Raises: KeyError; NodeOrderError; StateError."""
        return self._order(lambda: self._closing.drain(node, deadline_s, who, why))

    def uncordon(self, node: str, who: str = "") -> dict[str, Any]:
        """Let a node take work again. Raises: KeyError; NodeOrderError; StateError."""
        return self._order(lambda: self._closing.uncordon(node, who))

    def _order(self, order: Callable[[], Told]) -> dict[str, Any]:
        """Return what an order for a node has changed, and let rounds see it."""
        with self._watch.storing(), self._cycle.lock:
            new, told = order()
        if new:
            self._nodes_changed()
        return {"changed": new, "told": told}

    def windows(self) -> Sequence[dict[str, Any]]:
        """Return a `core.schemas.WindowRow` of each maintenance window, the next one first."""
        return [dict(row) for row in closed_views.window_rows(self._closing.orders.windows)]

    def add_window(
        self,
        begins_s: float,
        ends_s: float,
        nodes: Sequence[str] = (),
        gpu_type: str = "",
        lead_s: float | None = None,
        who: str = "",
        why: str = "",
    ) -> dict[str, Any]:
        """Keep nodes free for a while, and return the window; `lead_s`: how long before it begins they are left.

        Raises: KeyError; NodeOrderError; StateError.
        """
        lead_s = LEAD_S if lead_s is None else lead_s
        with self._watch.storing(), self._cycle.lock:
            window = self._closing.add_window(begins_s, ends_s, nodes, gpu_type, lead_s, who, why)
        self._nodes_changed()
        return dict(closed_views.window_rows([window])[0])

    def remove_window(self, window: str, who: str = "") -> dict[str, Any]:
        """Forget a maintenance window, and return it. Raises: KeyError; StateError."""
        with self._watch.storing(), self._cycle.lock:
            found = self._closing.remove_window(window, who)
        self._nodes_changed()
        return dict(closed_views.window_rows([found])[0])
