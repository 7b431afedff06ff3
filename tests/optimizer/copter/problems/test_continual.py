"""What the continual engine is told of a problem is the problem: the same optimum, after every round's changes."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from coadapt.optimizer.copter.engine import ContinualProgram
from coadapt.optimizer.copter.engine.program import Coefficients
from coadapt.optimizer.copter.problems.continual import add_shards, add_traffic, change_shards, change_traffic
from coadapt.optimizer.copter.problems.paths import edge_disjoint_paths
from coadapt.optimizer.copter.problems.shard_balancing import (
    ShardProblem,
    first_problem,
    relaxed_program,
    zipf_loads,
)
from coadapt.optimizer.copter.problems.topology import kdl_like
from coadapt.optimizer.copter.problems.traffic_engineering import (
    TrafficProblem,
    perturbed,
    traffic_matrix,
    traffic_program,
)
from coadapt.optimizer.highs import Highs


class Engine(ContinualProgram):
    """Counts the calls that change requests."""

    def __init__(self) -> None:
        super().__init__()
        self.touched = 0

    def change_uses(self, ids: Sequence[Hashable], uses: Mapping[str, Coefficients]) -> None:
        self.touched += 1
        super().change_uses(ids, uses)

    def change_costs(self, ids: Sequence[Hashable], costs: Sequence[np.ndarray] | np.ndarray) -> None:
        self.touched += 1
        super().change_costs(ids, costs)

    def minimum(self) -> float:
        return Highs().solve(self.linear_program()).objective


def test_traffic_rounds_are_told_as_they_are() -> None:
    topology = kdl_like(0, nodes=100, links=115)
    source = np.repeat(np.arange(10), 10)
    target = np.tile(np.arange(20, 30), 10)
    paths = edge_disjoint_paths(topology, source, target)
    volume = 300 * traffic_matrix(topology, "bimodal", source, target, 0)
    engine = Engine()
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


def shard_rounds() -> tuple[ShardProblem, ShardProblem]:
    """Return two rounds between which all loads changed, and a replica was started."""
    loads = zipf_loads(24, "stateless", 0)
    before = replace(first_problem(24, 4, memory_gib=10), load=next(loads))
    held = before.held.copy()
    held[:, 0] = [True, True, False, False]
    return before, replace(before, load=next(loads), held=held)


def test_shard_rounds_are_told_as_they_are() -> None:
    before, now = shard_rounds()
    engine = Engine()
    add_shards(engine, before)
    assert engine.minimum() == pytest.approx(Highs().solve(relaxed_program(before)).objective)
    change_shards(engine, before, now)
    assert engine.minimum() == pytest.approx(Highs().solve(relaxed_program(now)).objective)
    engine.touched = 0
    change_shards(engine, now, now)
    assert engine.touched == 0
    stricter = replace(now, epsilon=0.001)
    change_shards(engine, now, stricter)
    assert engine.minimum() == pytest.approx(Highs().solve(relaxed_program(stricter)).objective)


def test_costs_that_are_told_apart_leave_few_shards_in_fractions_and_an_optimum_of_those_that_are_not() -> None:
    before, now = shard_rounds()
    engine = Engine()
    add_shards(engine, before, apart=0.01)
    change_shards(engine, before, now, apart=0.01)
    routed = engine.solve(tolerance=1e-6).values.reshape(now.held.T.shape)
    assert routed.sum(axis=1) == pytest.approx(1.0, abs=1e-4)
    # A vertex: beside one for each shard there is a fraction for each limit that is met, load or memory, at most.
    assert (routed > 1e-4).sum() <= 24 + 2 * 4
    exact = Highs().solve(relaxed_program(now)).objective
    paid = float((routed * ~now.held.T * now.size_gib[:, None]).sum())
    assert exact - 1e-4 <= paid <= exact + 0.01 * float(now.size_gib.sum())
