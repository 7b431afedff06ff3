"""What the continual engine is told of a problem is the problem: the same optimum, after every round's changes."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from coadapt.optimizer.baselines.highs import Highs
from coadapt.optimizer.linear_program import LinearProgram
from coadapt.optimizer.problems.continual import add_shards, add_traffic, change_shards, change_traffic
from coadapt.optimizer.problems.paths import edge_disjoint_paths
from coadapt.optimizer.problems.shard_balancing import first_problem, relaxed_program, zipf_loads
from coadapt.optimizer.problems.topology import kdl_like
from coadapt.optimizer.problems.traffic_engineering import (
    TrafficProblem,
    perturbed,
    traffic_matrix,
    traffic_program,
)
from scipy import sparse


class Recorder:
    """Keeps what it is told and makes a linear program of it; counts requests that were touched again."""

    def __init__(self) -> None:
        self.capacity: dict[str, tuple[float, float]] = {}
        self.cost: dict[Hashable, np.ndarray] = {}
        self.uses: dict[Hashable, Mapping[str, tuple[np.ndarray, np.ndarray]]] = {}
        self.touched = 0

    def set_capacity(self, resource: str, upper: float, lower: float = -math.inf) -> None:
        self.capacity[resource] = (lower, upper)

    def add_request(
        self, id: Hashable, cost: np.ndarray, uses: Mapping[str, tuple[np.ndarray, np.ndarray]]
    ) -> None:
        assert id not in self.cost
        self.cost[id], self.uses[id] = cost, uses

    def change_request(self, id: Hashable, *, uses: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
        assert set(uses) == set(self.uses[id])
        self.uses[id] = uses
        self.touched += 1

    def change_costs(self, ids: Sequence[Hashable], costs: Sequence[np.ndarray]) -> None:
        self.cost |= dict(zip(ids, costs, strict=True))
        self.touched += len(ids)

    def minimum(self) -> float:
        rows = {name: i for i, name in enumerate(self.capacity)}
        at, entries = 0, []
        for id, cost in self.cost.items():
            for name, (indices, values) in self.uses[id].items():
                entries += [(rows[name], at + int(i), float(v)) for i, v in zip(indices, values, strict=True)]
            at += len(cost)
        row, column, value = np.array(entries).T
        matrix = sparse.csr_array((value, (row.astype(int), column.astype(int))), shape=(len(rows), at))
        lower, upper = np.array(list(self.capacity.values())).T
        cost = np.concatenate(list(self.cost.values()))
        return (
            Highs().solve(LinearProgram(cost, matrix, lower, upper, np.zeros(at), np.full(at, np.inf))).objective
        )


def test_traffic_rounds_are_told_as_they_are() -> None:
    topology = kdl_like(0, nodes=100, links=115)
    source = np.repeat(np.arange(10), 10)
    target = np.tile(np.arange(20, 30), 10)
    paths = edge_disjoint_paths(topology, source, target)
    volume = 300 * traffic_matrix(topology, "bimodal", source, target, 0)
    engine = Recorder()
    before = TrafficProblem(volume, topology.capacity, paths)
    add_traffic(engine, before)
    for demand in islice(perturbed(volume, 0), 3):
        now = TrafficProblem(demand, topology.capacity, paths)
        change_traffic(engine, before, now)
        assert engine.minimum() == pytest.approx(Highs().solve(traffic_program(now)).objective)
        before = now
    assert engine.touched == 0
    with pytest.raises(ValueError, match="paths: are not those"):
        change_traffic(engine, before, replace(before, paths=replace(paths)))


def test_shard_rounds_are_told_as_they_are() -> None:
    loads = zipf_loads(24, "stateless", 0)
    before = replace(first_problem(24, 4, memory_gib=10), load=next(loads))
    engine = Recorder()
    add_shards(engine, before)
    assert engine.minimum() == pytest.approx(Highs().solve(relaxed_program(before)).objective)
    held = before.held.copy()
    held[:, 0] = [True, True, False, False]
    now = replace(before, load=next(loads), held=held)
    change_shards(engine, before, now)
    assert engine.minimum() == pytest.approx(Highs().solve(relaxed_program(now)).objective)
    engine.touched = 0
    change_shards(engine, now, now)
    assert engine.touched == 0
