"""Both problems as requests that share resources, for the continual engine; a round changes only what changed.

Traffic: a demand is a request, a path its variable, an edge a resource. Shards: a shard is a request, the fraction
of its load on a server its variable, and a server's load and memory are resources (X = R, see `relaxed_program`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import numpy as np

from .shard_balancing import ShardProblem
from .traffic_engineering import TrafficProblem

Uses = Mapping[str, tuple[np.ndarray, np.ndarray]]


class Engine(Protocol):
    """What of `ContinualProgram` is needed here."""

    def set_capacity(self, resource: str, upper: float, lower: float = -math.inf) -> None: ...

    def add_request(self, id: Hashable, cost: np.ndarray, uses: Uses) -> None: ...

    def change_request(self, id: Hashable, *, uses: Uses) -> None: ...

    def change_costs(self, ids: Sequence[Hashable], costs: Sequence[np.ndarray]) -> None: ...


def add_traffic(engine: Engine, problem: TrafficProblem) -> None:
    """Everything of a first round into an empty, minimising program: request j is demand j, if it has a path."""
    for e, capacity in enumerate(problem.capacity):
        engine.set_capacity(f"edge {e}", float(capacity))
    paths = problem.paths
    for j in range(paths.demands):
        mine = range(paths.first[j], paths.first[j + 1])
        if not len(mine):
            continue
        edges = paths.edge[paths.start[mine.start] : paths.start[mine.stop]]
        of_path = np.repeat(np.arange(len(mine)), np.diff(paths.start[mine.start : mine.stop + 1]))
        # Paths of one demand share no edge, but of other sets of paths an edge may be in several.
        order = np.argsort(edges, kind="stable")
        names, begins = np.unique(edges[order], return_index=True)
        uses = {
            f"edge {e}": (which, np.ones(len(which)))
            for e, which in zip(names, np.split(of_path[order], begins[1:]), strict=True)
        }
        engine.set_capacity(f"demand {j}", float(problem.demand[j]))
        uses[f"demand {j}"] = (np.arange(len(mine)), np.ones(len(mine)))
        engine.add_request(j, -np.ones(len(mine)), uses)


def change_traffic(engine: Engine, before: TrafficProblem, now: TrafficProblem) -> None:
    """The next round over the same paths: demands and capacities that are not what they were."""
    if before.paths is not now.paths:
        raise ValueError("paths: are not those of the round before; the same object is accepted")
    for j in np.flatnonzero((before.demand != now.demand) & (np.diff(now.paths.first) > 0)):
        engine.set_capacity(f"demand {j}", float(now.demand[j]))
    for e in np.flatnonzero(before.capacity != now.capacity):
        engine.set_capacity(f"edge {e}", float(now.capacity[e]))


def add_shards(engine: Engine, problem: ShardProblem) -> None:
    """Everything of a first round into an empty, minimising program: request j is shard j, variable i server i."""
    servers, shards = problem.held.shape
    for i in range(servers):
        engine.set_capacity(f"load {i}", 1 + problem.epsilon, 1 - problem.epsilon)
        engine.set_capacity(f"memory {i}", float(problem.memory_gib[i]))
    for j in range(shards):
        engine.set_capacity(f"shard {j}", 1.0, 1.0)
        engine.add_request(j, _cost(problem, j), _uses(problem, j))


def change_shards(engine: Engine, before: ShardProblem, now: ShardProblem) -> None:
    """The next round of the same servers and shards: costs where replicas moved, uses where loads changed."""
    if before.held.shape != now.held.shape or (before.size_gib != now.size_gib).any():
        raise ValueError(
            "held, size_gib: are of other servers or shards than the round before; the same are accepted"
        )
    for i in np.flatnonzero(before.memory_gib != now.memory_gib):
        engine.set_capacity(f"memory {i}", float(now.memory_gib[i]))
    moved = np.flatnonzero((before.held != now.held).any(axis=0))
    engine.change_costs([int(j) for j in moved], [_cost(now, j) for j in moved])
    for j in np.flatnonzero(before.load / before.mean_load != now.load / now.mean_load):
        engine.change_request(int(j), uses=_uses(now, j))


def _cost(problem: ShardProblem, j: int | np.integer) -> np.ndarray:
    return ~problem.held[:, j] * problem.size_gib[j]


def _uses(problem: ShardProblem, j: int | np.integer) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    servers = len(problem.memory_gib)
    load, size = np.array([problem.load[j] / problem.mean_load]), np.array([problem.size_gib[j]])
    each = [np.array([i]) for i in range(servers)]
    uses = {f"load {i}": (each[i], load) for i in range(servers)}
    uses |= {f"memory {i}": (each[i], size) for i in range(servers)}
    return uses | {f"shard {j}": (np.arange(servers), np.ones(servers))}
