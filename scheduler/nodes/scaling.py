"""Scaling in the service: what is seen of nodes, what is stored, and what Ray's autoscaler is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

from ...core.cluster import Cluster
from ...core.events import EventKind
from ...core.figures import MOST_GPU_TYPES
from ...core.scaling_settings import ScalingSettings
from ...core.settings import Settings
from ...core.sleeping import SleepingNode
from ...policies.contract.round import Plan, Round
from ..power.autoscaler import AutoscalerWishes, Wanted
from ..scaling.choice import Room
from ..scaling.control import ScalingControl, SeenNode
from ..scaling.state import ScalingState
from ..scaling.worth import new_nodes
from ..store.events import Event
from ..store.store import Store
from .closures import Source
from .node_source import NodeSource
from .node_view import NODE_TYPE_LABEL, NodesSnapshot

FACT = "scaling"
KEEP_S = 60.0  # how often sums of dollars and hours are stored where nothing else has changed
AGAIN_S, RETRY_S = 60.0, 5.0  # a wish is told again after so long, and after an error
MOST_SHOWN = 64  # nodes of a type that jobs are told may be bought


class NodeFigures(NamedTuple):
    """What is told of nodes that can be bought; None where none can. Its fields are those of `Figures`."""

    nodes: dict[str, dict[str, int]]
    nodes_cost_per_h: float | None
    nodes_budget_per_h: float | None
    nodes_spent: float | None
    nodes_asked: int | None
    nodes_unmet: int | None


class Scaling:
    """Buys nodes and gives them up, as far as the settings say so.

    Args:
        settings: of the service; they may change.
        nodes: the nodes as jobs may use them, without what is done here.
        wishes: asks Ray's autoscaler.
        stays: returns why a machine may not be given up; "": it may.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        nodes: NodeSource,
        wishes: AutoscalerWishes,
        stays: Callable[[str], str] = lambda machine: "",
    ) -> None:
        self._settings, self._store, self._wishes, self._stays = settings, store, wishes, stays
        self.state = self._read()
        self._control: ScalingControl | None = None
        self._round = 0  # the number of the last round that was taken
        self._stored_s = 0.0
        self._thread = ThreadPoolExecutor(1, "autoscaler")
        self._asking: Future[None] | None = None
        self._asked: Mapping[str, int] | None = None  # the last wish that was sent
        self._again_s = 0.0  # when it is sent again, whatever it is
        self.trouble = ""  # why the last wish could not be sent
        self.nodes = ScaledNodes(nodes, self)

    @property
    def settings(self) -> ScalingSettings | None:
        """Return what the operator says of buying nodes; None: nothing."""
        return self._settings.scaling

    def tick(
        self, busy: Callable[[], Mapping[str, str]], last: tuple[int, Round, Plan] | None, now: float
    ) -> bool:
        """Decide, store and ask. Return whether jobs may use other nodes now. Call it between rounds.

        Args:
            busy: returns what is on each node, by its id.
            last: number of the last round, with its plan.

        Raises: StoreFailure; nothing has changed then.
        """
        nodes = self.nodes.beneath
        if (settings := self.settings) is None or not nodes.ready:
            return False
        control = self.control(settings)
        if last is not None and last[0] != self._round:
            self._round = last[0]
            control.take(last[1], last[2])
        turn = control.turn(self.state, self._seen(nodes, settings, busy()), now)
        before = self.state
        quiet = _without_sums(turn.state) == _without_sums(before) and not turn.told
        if not quiet or now - self._stored_s > KEEP_S:
            with self._store.together():
                self._store.write_fact(FACT, turn.state.to_json())
                self._store.log(*(Event(EventKind.SCALING, now, None, {"text": text}) for text in turn.told))
            self._stored_s = now
        self.state = turn.state
        if settings.mode == "act":
            self._ask(settings, now)
        return (before.requests, before.leaving, before.left_out) != (
            turn.state.requests,
            turn.state.leaving,
            turn.state.left_out,
        )

    def control(self, settings: ScalingSettings) -> ScalingControl:
        """Return what decides, by the settings of now."""
        if self._control is None:
            self._control = ScalingControl(settings)
        elif self._control.settings is not settings:
            self._control.change(settings)
        return self._control

    @property
    def unleased(self) -> frozenset[str]:
        """Return ids of nodes that must not be leased, so that Ray's autoscaler finds them idle."""
        if self.settings is None:
            return frozenset()
        return frozenset(id for id, one in self.state.leaving.items() if one.dropped)

    def figures(self) -> NodeFigures:
        """Return sums for those who watch the service."""
        state, settings = self.state, self.settings
        if settings is None:
            return NodeFigures({}, None, None, None, None, None)
        leaving = Counter(one.type for one in state.leaving.values())
        nodes = {
            name: {"here": state.here.get(name, 0), "asked": state.asked.get(name, 0), "leaving": leaving[name]}
            for name in list(settings.types)[:MOST_GPU_TYPES]
        }
        cost = settings.cost_per_h(state.all)
        return NodeFigures(nodes, cost, settings.budget_per_h, state.spent, state.numbered, state.unmet)

    # --- inside -----------------------------------------------------------------------------------------------

    def _seen(
        self, nodes: NodesSnapshot, settings: ScalingSettings, busy: Mapping[str, str]
    ) -> dict[str, SeenNode]:
        found = {}
        for id, name in nodes.node_types.items():
            if name not in settings.types or id not in nodes.alive:
                continue
            machine, closed = nodes.machines.get(id, id), nodes.closed.get(id)
            sources = {one.source for one in closed.reasons} if closed is not None else set()
            noticed = Source.NOTICE in sources
            stays = "the head or the scheduler runs there" if id in nodes.homes else self._stays(machine)
            if Source.OPERATOR in sources or Source.WINDOW in sources:
                stays = "an operator keeps it closed"
            found[id] = SeenNode(id, machine, name, busy.get(id, ""), stays, noticed)
        return found

    def _ask(self, settings: ScalingSettings, now: float) -> None:
        """Send the wish in a thread of its own, as Ray may not answer. What is stored is what is sent."""
        if self._asking is not None:
            if not self._asking.done():
                return
            error = self._asking.exception()
            self._asking = None
            if error is not None and not self.trouble:
                self._store.log(Event(EventKind.ERROR, now, None, {"text": str(error)}))
            self.trouble = "" if error is None else str(error)
            self._again_s = now + (AGAIN_S if error is None else RETRY_S)
        wish = self.state.wish()
        if wish == self._asked and now < self._again_s:
            return
        wanted = [
            Wanted(settings.types[name].gpus, NODE_TYPE_LABEL, name)
            for name, count in wish.items()
            if name in settings.types
            for _ in range(count)
        ]
        self._asked = wish
        self._asking = self._thread.submit(self._wishes.wish, "scaling", wanted)

    def _read(self) -> ScalingState:
        text = self._store.read_fact(FACT)
        if text is None:
            return ScalingState()
        try:
            return ScalingState.from_json(text)
        except (ValueError, KeyError, TypeError) as error:
            why = f"what is stored of nodes that were bought cannot be read: {type(error).__name__}: {error}"
            self._store.log(Event(EventKind.ERROR, 0.0, None, {"text": why}))
            return ScalingState()


class ScaledNodes:
    """A source of nodes over another one: without those that are given up, and with those that may be bought."""

    def __init__(self, nodes: NodeSource, scaling: Scaling) -> None:
        self._nodes, self._scaling = nodes, scaling
        self._made: tuple[NodesSnapshot, ScalingState, ScalingSettings | None, NodesSnapshot] | None = None

    @property
    def beneath(self) -> NodesSnapshot:
        """Return the newest snapshot of the nodes beneath."""
        return self._nodes.snapshot

    @property
    def snapshot(self) -> NodesSnapshot:
        """Return the newest snapshot. Equal nodes make the same cluster object, as policies cache by it."""
        nodes, state, settings, made = (
            self._nodes.snapshot,
            self._scaling.state,
            self._scaling.settings,
            self._made,
        )
        if settings is None:
            return nodes
        if made is not None and made[0] is nodes and made[1] is state and made[2] is settings:
            return made[3]
        found = with_scaling(nodes, state, settings)
        if made is not None and found.cluster == made[3].cluster:
            found = replace(found, cluster=made[3].cluster)
        self._made = nodes, state, settings, found
        return found


def with_scaling(nodes: NodesSnapshot, state: ScalingState, settings: ScalingSettings) -> NodesSnapshot:
    """Return nodes without those that are given up, and with those that come or may be bought."""
    here = tuple(node for node in nodes.cluster.nodes if node.id not in state.leaving)
    asleep, room = list(nodes.asleep), Room(settings, state.all, state.left_out)
    for name, type in settings.types.items():
        coming = state.asked.get(name, 0)
        possible = new_nodes(name, type, min(coming + room.most(name), MOST_SHOWN))
        asleep += [
            SleepingNode(node, waking=at < coming, boot_s=settings.boot_s, bought=True)
            for at, node in enumerate(possible)
        ]
    return replace(
        nodes,
        cluster=nodes.cluster if len(here) == len(nodes.cluster.nodes) else Cluster(here),
        asleep=tuple(asleep),
    )


def _without_sums(state: ScalingState) -> ScalingState:
    return replace(state, spent=0.0, node_hours={})
