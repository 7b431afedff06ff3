"""States both problems as requests that share resources, for the continual engine. A round tells only changes.

For traffic a demand is a request, a path is its variable, and an edge is a resource. For shards a shard is a
request, and the fraction of its load on a server is its variable. A server's load and memory are resources (X = R,
see `relaxed_program`).
"""

from __future__ import annotations

import numpy as np

from ..engine import ContinualProgram, Row
from .shard_balancing import ShardProblem
from .traffic_engineering import TrafficProblem


def add_traffic(engine: ContinualProgram, problem: TrafficProblem) -> None:
    """Put a first round into an empty, minimising program. Request j is demand j, if it has a path."""
    for e, capacity in enumerate(problem.capacity):
        engine.set_capacity(f"edge {e}", float(capacity))
    paths = problem.paths
    for j in range(paths.demands):
        mine = range(paths.first[j], paths.first[j + 1])
        if not len(mine):
            continue
        edges = paths.edge[paths.start[mine.start] : paths.start[mine.stop]]
        of_path = np.repeat(np.arange(len(mine)), np.diff(paths.start[mine.start : mine.stop + 1]))
        # Paths of one demand share no edge here, but in other sets of paths they may.
        order = np.argsort(edges, kind="stable")
        names, begins = np.unique(edges[order], return_index=True)
        uses = {
            f"edge {e}": (which, np.ones(len(which)))
            for e, which in zip(names, np.split(of_path[order], begins[1:]), strict=True)
        }
        engine.set_capacity(f"demand {j}", float(problem.demand[j]))
        uses[f"demand {j}"] = (np.arange(len(mine)), np.ones(len(mine)))
        engine.add_request(j, -np.ones(len(mine)), uses)


def change_traffic(engine: ContinualProgram, before: TrafficProblem, now: TrafficProblem) -> None:
    """Put the next round over the same paths into a program: changed demands and capacities."""
    if before.paths is not now.paths:
        raise ValueError("paths: are not those of the round before; the same object is accepted")
    for j in np.flatnonzero((before.demand != now.demand) & (np.diff(now.paths.first) > 0)):
        engine.set_capacity(f"demand {j}", float(now.demand[j]))
    for e in np.flatnonzero(before.capacity != now.capacity):
        engine.set_capacity(f"edge {e}", float(now.capacity[e]))


def add_shards(engine: ContinualProgram, problem: ShardProblem, apart: float = 0.0) -> None:
    """Put a first round into an empty, minimising program. Request j is shard j, and its variable i is server i.

    A replica costs the same on any server, so there are many optima. A shim cannot round the fractions in their
    middle well. Small random costs leave one optimum, a vertex.

    Args:
        apart: the largest random cost, as a part of a replica's.
    """
    servers, shards = problem.held.shape
    for i in range(servers):
        engine.set_capacity(f"load {i}", 1 + problem.epsilon, 1 - problem.epsilon)
        engine.set_capacity(f"memory {i}", float(problem.memory_gib[i]))
    every = np.arange(shards)
    sizes = np.full(shards, servers)
    memory = _of_servers("memory", problem.size_gib, servers)
    uses = memory | _of_servers("load", problem.load / problem.mean_load, servers)
    routed = Row(1.0, 1.0, 1.0)
    engine.add_requests(every.tolist(), sizes, _costs(problem, every, apart), uses, [routed])


def change_shards(engine: ContinualProgram, before: ShardProblem, now: ShardProblem, apart: float = 0.0) -> None:
    """Put the next round of the same servers and shards into a program: changed costs and uses."""
    if before.held.shape != now.held.shape or (before.size_gib != now.size_gib).any():
        raise ValueError(
            "held, size_gib: are of other servers or shards than the round before; the same are accepted"
        )
    if before.epsilon != now.epsilon:
        for server in range(len(now.memory_gib)):
            engine.set_capacity(f"load {server}", 1 + now.epsilon, 1 - now.epsilon)
    for i in np.flatnonzero(before.memory_gib != now.memory_gib):
        engine.set_capacity(f"memory {i}", float(now.memory_gib[i]))
    moved = np.flatnonzero((before.held != now.held).any(axis=0))
    if len(moved):
        engine.change_costs(moved.tolist(), _costs(now, moved, apart))
    share = now.load / now.mean_load
    other = np.flatnonzero(before.load / before.mean_load != share)
    if len(other):
        engine.change_uses(other.tolist(), _of_servers("load", share[other], len(now.memory_gib)))


def _costs(problem: ShardProblem, shards: np.ndarray, apart: float) -> np.ndarray:
    """Return the costs of these shards on every server, one shard behind another."""
    lots = np.random.default_rng(0).random(problem.held.shape)
    costs = (~problem.held + apart * lots) * problem.size_gib
    return costs[:, shards].T.ravel()


def _of_servers(what: str, each: np.ndarray, servers: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the uses of one resource per server: `each` (shards,) is what a shard takes of any server."""
    first = servers * np.arange(len(each))
    return {f"{what} {i}": (first + i, each) for i in range(servers)}
