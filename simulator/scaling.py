"""Nodes that a simulated cluster buys and gives up, decided as in the live service, and what they cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..core.cluster import Cluster, Node
from ..core.scaling_settings import ScalingSettings
from ..policies.contract.round import Plan, Round
from ..scheduler.scaling.control import ScalingControl, SeenNode
from ..scheduler.scaling.state import ScalingState
from .engine.node_states import Power, PowerChange, PowerEvent
from .engine.outcome import Outcome
from .traces.cluster_file import WHOLE, SimulatedCluster

# Figures of runs that buy nodes -> what they are, for people.
MEANING_OF_COST = {
    "dollars": "cost of nodes (dollars)",
    "dollars_per_job": "cost of a job (dollars)",
    "most_dollars_per_h": "most at a time (dollars/h)",
}


@dataclass(frozen=True)
class Advised:
    """What is done with nodes after a round; it is a `PowerAdvice`."""

    wake: tuple[str, ...] = ()
    sleep: tuple[str, ...] = ()
    again_s: float | None = None


def scaled(cluster: SimulatedCluster | None, settings: ScalingSettings) -> SimulatedCluster:
    """Return a cluster with all nodes that may ever be bought. Raise ValueError for one with pools.

    Args:
        cluster: nodes that are there all the time and cost nothing; None: there are none.
    """
    if (cluster is not None and cluster.pools) or any(type.pool for type in settings.types.values()):
        raise ValueError("scaling: simulated nodes of pools cannot be bought; leave the pools out")
    fixed = () if cluster is None else cluster.parts[WHOLE].nodes
    return SimulatedCluster({WHOLE: Cluster((*fixed, *(node for _, node in nodes_of(settings))))})


def nodes_of(settings: ScalingSettings) -> list[tuple[str, Node]]:
    """Return every node that may be bought, with its type."""
    return [
        (name, Node(f"{name}-{i:04d}", type.gpu_type, type.gpus, type.cpus, type.memory_gib))
        for name, type in settings.types.items()
        for i in range(type.max)
    ]


class BoughtNodes:
    """Says after each round which nodes are bought and which are given up."""

    def __init__(self, settings: ScalingSettings) -> None:
        self.settings, self.state = settings.model_copy(update={"mode": "act"}), ScalingState()
        self.types = {node.id: name for name, node in nodes_of(settings)}
        self._control, self._coming = ScalingControl(self.settings), set[str]()

    def power(self) -> Power:
        """Return what an engine goes by. At first only the least nodes of each type are there."""
        asleep = []
        for name, type in self.settings.types.items():
            asleep += [id for id, of in self.types.items() if of == name][type.min :]
        return Power(self.advise, self.settings.boot_s, frozenset(asleep), self._may_help)

    def advise(self, round: Round, plan: Plan) -> Advised:
        """Return which nodes wake, as they are bought, and which sleep, as they are given up."""
        here = {node.id for node in round.cluster.nodes if node.id in self.types}
        self._coming -= here
        busy = {share.node_id: job for job, placed in plan.placements.items() for share in placed.shares}
        seen = {id: SeenNode(id, id, self.types[id], busy.get(id, "")) for id in sorted(here)}
        self._control.take(round, plan)
        before = Counter(self.state.asked)
        self.state = self._control.turn(self.state, seen, round.now).state
        # What is given up is free at once: no plan comes in between.
        self.state = self._control.turn(self.state, seen, math.nextafter(round.now, math.inf)).state
        bought = Counter(self.state.asked) - before
        wake = [id for name, count in bought.items() for id in self._away(name, here)[:count]]
        self._coming |= set(wake)
        sleep = tuple(id for id, one in self.state.leaving.items() if one.dropped)
        waits = bool(self._control.idle_since or self.state.requests or round.jobs)
        return Advised(tuple(wake), sleep, round.now + round.length if waits else None)

    def _may_help(self) -> bool:
        """Return whether a node may yet be bought: a need has not lasted long enough, or a type is left out."""
        waited, state = self._control.needs.waited, self.state
        lasted = bool(waited) and max(waited.values()) >= self.settings.rounds
        return bool(state.requests or state.leaving or state.left_out) or not lasted

    def _away(self, name: str, here: set[str]) -> list[str]:
        return [id for id, of in self.types.items() if of == name and id not in here and id not in self._coming]


def cost_figures(
    settings: ScalingSettings, logs: Sequence[Sequence[PowerChange]], outcome: Outcome
) -> dict[str, float]:
    """Return what the nodes of a run cost, from its first submission to its last end."""
    first_s, last_s = float(outcome.workload.submit_s.min()), float(outcome.finished_s.max())
    types = {node.id: name for name, node in nodes_of(settings)}
    spans = [one for log in logs for one in _there(log, types, first_s, last_s)]
    prices = {name: type.price_per_h for name, type in settings.types.items()}
    dollars = sum(prices[types[id]] * (end_s - begin_s) / 3600.0 for id, begin_s, end_s in spans)
    changes = sorted(
        [(begin_s, 1, prices[types[id]]) for id, begin_s, _ in spans]
        + [(end_s, 0, -prices[types[id]]) for id, _, end_s in spans]
    )
    now = most = 0.0
    for _, _, change in changes:
        now += change
        most = max(most, now)
    jobs = len(outcome.workload)
    return {"dollars": dollars, "dollars_per_job": dollars / jobs, "most_dollars_per_h": most}


def fixed_peak(settings: ScalingSettings, logs: Sequence[Sequence[PowerChange]]) -> dict[str, int]:
    """Return the nodes of each type at the moment at which all that were there or came cost most."""
    types = {node.id: name for name, node in nodes_of(settings)}
    now = Counter({name: type.min for name, type in settings.types.items()})
    most = Counter(now)
    changes = [change for log in logs for change in log if change.time_s > -math.inf]
    for change in sorted(changes, key=lambda one: one.time_s):
        if change.event is not PowerEvent.IS_BACK:
            now[types[change.node_id]] += 1 if change.event is PowerEvent.WAKES else -1
        if settings.cost_per_h(now) > settings.cost_per_h(most):
            most = Counter(now)
    return {name: count for name, count in most.items() if count}


def always_there(settings: ScalingSettings, counts: Mapping[str, int]) -> ScalingSettings:
    """Return settings under which exactly so many nodes of each type are there all the time."""
    types = {
        name: type.model_copy(update={"min": counts.get(name, 0), "max": counts.get(name, 0)})
        for name, type in settings.types.items()
    }
    budget = settings.cost_per_h(counts)
    return settings.model_copy(update={"types": types, "budget_per_h": max(budget, settings.budget_per_h)})


def _there(
    log: Sequence[PowerChange], types: Mapping[str, str], first_s: float, last_s: float
) -> list[tuple[str, float, float]]:
    """Return (node, begin, end) of each time that a node was paid for: from when it was asked for."""
    since: dict[str, float] = dict.fromkeys(types, first_s)
    found = []
    for change in log:
        if change.event is PowerEvent.SLEEPS:
            begin_s = since.pop(change.node_id)
            found.append((change.node_id, begin_s, change.time_s))
        elif change.event is PowerEvent.WAKES:
            since[change.node_id] = change.time_s
    found += [(id, begin_s, last_s) for id, begin_s in since.items()]
    clamped = [(id, max(begin_s, first_s), min(end_s, last_s)) for id, begin_s, end_s in found]
    return [one for one in clamped if one[2] > one[1]]
