"""Traffic engineering: flows within every demand and capacity, as much as the linear program's, with a bound."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from coadapt.optimizer.copter.baselines.pop import solve_parts
from coadapt.optimizer.copter.problems import path_flow
from coadapt.optimizer.copter.problems.path_flow import PathFlow
from coadapt.optimizer.copter.problems.paths import edge_disjoint_paths
from coadapt.optimizer.copter.problems.topology import Topology, asn_like, both_ways, kdl_like, read_graphml
from coadapt.optimizer.copter.problems.traffic_engineering import (
    TrafficPartition,
    TrafficProblem,
    fill,
    perturbed,
    scaled_to_load,
    top_and_pinned,
    traffic_matrix,
    traffic_program,
)
from coadapt.optimizer.highs import Highs
from hypothesis import example, given, settings
from hypothesis import strategies as st

GRAPHML = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">
<node id="0"/><node id="7"/><node id="2"/>
<edge source="0" target="7"/><edge source="7" target="2"/>
<edge source="2" target="7"/><edge source="2" target="2"/>
</graph></graphml>"""


def random_problem(seed: int, nodes: int = 8, links: int = 12, demands: int = 15) -> TrafficProblem:
    rng = np.random.default_rng(seed)
    ring = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes], axis=1)
    chords = np.array([rng.choice(nodes, 2, replace=False) for _ in range(links - nodes)])
    topology = both_ways(nodes, np.concatenate([ring, chords]), rng.uniform(1, 10, links))
    pairs = rng.choice(nodes * (nodes - 1), demands, replace=False)
    source, target = pairs // (nodes - 1), pairs % (nodes - 1)
    target = target + (target >= source)
    paths = edge_disjoint_paths(topology, source, target, k=3)
    return TrafficProblem(rng.pareto(1.2, demands), topology.capacity, paths)


@settings(max_examples=25)
@given(st.integers(0, 10_000))
@example(430)  # with a demand of 500 times any capacity
def test_the_flow_found_is_feasible_and_the_linear_programs(seed: int) -> None:
    problem = random_problem(seed)
    exact = -Highs().solve(traffic_program(problem)).objective
    found = PathFlow(tolerance=1e-3, threads=1).solve(problem)
    assert problem.excess(found.flow) <= 1e-9
    assert found.total == pytest.approx(found.flow.sum())
    assert found.total <= exact * (1 + 1e-7) + 1e-9
    assert found.bound >= exact * (1 - 1e-7) - 1e-9
    assert found.gap <= 1e-3


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_rounds_in_which_links_fail_and_demands_end_are_proven_too(seed: int) -> None:
    """What the last round leaves is a start, whatever has become of it."""
    rng = np.random.default_rng(seed)
    every = random_problem(seed)
    solver = PathFlow(tolerance=1e-3, threads=1)
    for _ in range(4):
        up, wanted = rng.random(len(every.capacity)) > 0.2, rng.random(len(every.demand)) > 0.3
        for problem in (every, replace(every, capacity=every.capacity * up, demand=every.demand * wanted)):
            found = solver.solve(problem)
            assert problem.excess(found.flow) <= 1e-9
            assert found.gap <= 1e-3


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_any_flow_is_made_feasible_and_a_feasible_one_is_not_made_less(seed: int) -> None:
    problem = random_problem(seed)
    wild = np.random.default_rng(seed).exponential(10.0, problem.paths.count)
    made = fill(problem, wild)
    assert problem.excess(made) <= 1e-9
    assert fill(problem, made).sum() >= made.sum() * (1 - 1e-12)


@pytest.mark.filterwarnings("error")
def test_the_excess_of_nothing_over_nothing_is_none() -> None:
    topology = Topology(3, np.array([0, 1]), np.array([1, 2]), np.ones(2))
    paths = edge_disjoint_paths(topology, np.array([0]), np.array([2]), threads=1)
    nothing = TrafficProblem(np.zeros(1), np.zeros(2), paths)
    assert nothing.excess(np.zeros(1)) == 0
    assert nothing.excess(np.ones(1)) == np.inf
    no_demands = edge_disjoint_paths(topology, np.zeros(0, dtype=int), np.zeros(0, dtype=int), threads=1)
    assert TrafficProblem(np.zeros(0), np.zeros(0), no_demands).excess(np.zeros(0)) == 0
    assert TrafficProblem(np.full(1, 4.0), np.ones(2), paths).excess(np.full(1, 3.0)) == 0.5
    assert TrafficProblem(np.full(1, 4.0), np.ones(2), paths).excess(np.full(1, -1.0)) == 0.25


@pytest.mark.parametrize("threads", [2, 3, 64])
def test_threads_find_the_same_flow_to_the_tolerance(threads: int) -> None:
    """Some of 64 have no demands."""
    problem = random_problem(5, demands=40)
    one, several = PathFlow(threads=1).solve(problem), PathFlow(threads=threads).solve(problem)
    assert problem.excess(several.flow) <= 1e-9
    assert several.gap <= 1e-3
    assert several.total == pytest.approx(one.total, rel=2e-3)


def test_rounds_that_change_little_need_few_passes() -> None:
    problem = random_problem(3, nodes=30, links=50, demands=400)
    warm, cold = PathFlow(check=5, threads=1), PathFlow(check=5, threads=1, warm=False)
    passes = []
    for demand in islice(perturbed(problem.demand, 0, 0.02), 6):
        now = TrafficProblem(demand, problem.capacity, problem.paths)
        first, second = warm.solve(now), cold.solve(now)
        assert max(first.gap, second.gap) <= 1e-3
        passes.append((first.passes, second.passes))
    assert sum(p for p, _ in passes[1:]) < 0.7 * sum(p for _, p in passes[1:])


def test_demands_without_path_volume_or_capacity_get_nothing() -> None:
    topology = Topology(4, np.array([0, 1]), np.array([1, 2]), np.ones(2))
    source, target = np.array([0, 0, 2, 1]), np.array([2, 1, 0, 3])
    paths = edge_disjoint_paths(topology, source, target, threads=1)
    found = PathFlow(threads=1).solve(TrafficProblem(np.array([5.0, 0.0, 1.0, 1.0]), np.array([2.0, 1.0]), paths))
    assert np.diff(paths.first).tolist() == [1, 1, 0, 0]
    assert found.flow == pytest.approx([1.0, 0.0], abs=1e-3)
    assert PathFlow().solve(TrafficProblem(np.ones(4), np.zeros(2), paths)).total == 0
    none = edge_disjoint_paths(topology, source[2:], target[2:], threads=1)
    assert PathFlow().solve(TrafficProblem(np.ones(2), np.ones(2), none)).total == 0


def test_many_demands_begin_with_the_prices_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(4, nodes=30, links=50, demands=800)
    monkeypatch.setattr(path_flow, "SAMPLED_ABOVE", 100)
    found = PathFlow(threads=1).solve(problem)
    exact = -Highs().solve(traffic_program(problem)).objective
    assert problem.excess(found.flow) <= 1e-9
    assert found.total == pytest.approx(exact, rel=1e-3)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 6))
def test_pop_hands_out_every_demand_once_and_its_flow_is_feasible(seed: int, k: int) -> None:
    problem = random_problem(seed)
    partition = TrafficPartition(problem, Highs(), large=0.2)
    handed = np.zeros(len(problem.demand))
    parts = partition.split(k, np.random.default_rng(seed))
    for part in parts:
        assert len(np.unique(part.demands)) == len(part.demands)
        handed[part.demands] += part.volume
    np.testing.assert_allclose(handed, problem.demand)
    assert sum(part.share for part in parts) == pytest.approx(1)
    flow = solve_parts(partition, k, seed=seed).whole
    assert problem.excess(flow) <= 1e-7
    assert flow.sum() <= -Highs().solve(traffic_program(problem)).objective + 1e-6


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.booleans())
def test_pinning_small_demands_is_feasible_and_pinning_none_is_optimal(seed: int, pinned_first: bool) -> None:
    problem = random_problem(seed)
    exact = -Highs().solve(traffic_program(problem)).objective
    flow = top_and_pinned(problem, Highs(), pinned_first=pinned_first)
    assert problem.excess(flow) <= 1e-7
    assert flow.sum() <= exact + 1e-6
    every = top_and_pinned(problem, Highs(), top=1.0, pinned_first=pinned_first)
    assert every.sum() == pytest.approx(exact, abs=1e-6)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_paths_lead_from_source_to_target_and_share_no_edge(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(10, 2, replace=False) for _ in range(14)])
    topology = both_ways(10, pairs, np.ones(14))
    source, target = np.repeat(np.arange(10), 9), np.concatenate([np.delete(np.arange(10), i) for i in range(10)])
    paths = edge_disjoint_paths(topology, source, target, k, threads=1)
    hops = topology.hops()[source, target]
    for j in range(len(source)):
        used: list[int] = []
        mine = range(paths.first[j], paths.first[j + 1])
        assert (len(mine) > 0) == np.isfinite(hops[j])
        assert len(mine) <= k
        lengths = [int(paths.start[p + 1] - paths.start[p]) for p in mine]
        assert lengths == sorted(lengths)
        assert not lengths or lengths[0] == hops[j]
        for p in mine:
            edges = paths.edge[paths.start[p] : paths.start[p + 1]]
            assert topology.tail[edges[0]] == source[j]
            assert topology.head[edges[-1]] == target[j]
            assert (topology.head[edges[:-1]] == topology.tail[edges[1:]]).all()
            used += edges.tolist()
        assert len(set(used)) == len(used)


@pytest.mark.parametrize(
    ("make", "nodes", "edges", "diameter", "mean_hops"),
    [(kdl_like, 754, 1790, 58, 22.7), (asn_like, 1739, 8558, 8, 3.2)],
)
def test_random_topologies_have_the_published_size_and_distances(
    make: Callable[[int], Topology], nodes: int, edges: int, diameter: int, mean_hops: float
) -> None:
    topology = make(0)
    hops = topology.hops()
    assert (topology.nodes, topology.edges) == (nodes, edges)
    assert abs(hops.max() - diameter) <= 0.15 * diameter
    assert abs(hops[hops > 0].mean() - mean_hops) <= 0.15 * mean_hops
    again = make(0)
    assert (again.tail == topology.tail).all()
    assert (again.head == topology.head).all()


def test_volumes_are_as_published() -> None:
    topology = kdl_like(0)
    rng = np.random.default_rng(0)
    source = rng.integers(0, topology.nodes, 20_000)
    target = (source + rng.integers(1, topology.nodes, 20_000)) % topology.nodes
    bimodal = traffic_matrix(topology, "bimodal", source, target, 0)
    assert bimodal[bimodal >= 2].sum() == pytest.approx(0.6 * bimodal.sum(), rel=0.05)
    assert not ((bimodal > 1) & (bimodal < 2)).any()
    poisson = np.sort(traffic_matrix(topology, "poisson", source, target, 0))[::-1]
    assert poisson[:200].sum() > 0.5 * poisson.sum()
    paths = edge_disjoint_paths(topology, source, target, 1)
    problem = scaled_to_load(TrafficProblem(bimodal, topology.capacity, paths), 0.5)
    assert problem.loads(problem.demand).sum() == pytest.approx(0.5 * topology.capacity.sum())


def test_a_topology_zoo_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "zoo.graphml").write_text(GRAPHML)
    topology = read_graphml(tmp_path / "zoo.graphml", capacity=10)
    links = dict(zip(zip(topology.tail, topology.head, strict=True), topology.capacity, strict=True))
    assert links == {(0, 1): 10, (1, 0): 10, (1, 2): 20, (2, 1): 20}
    (tmp_path / "zoo.graphml").write_text(GRAPHML.replace("undirected", "directed"))
    directed = read_graphml(tmp_path / "zoo.graphml", capacity=10)
    assert set(zip(directed.tail.tolist(), directed.head.tolist(), strict=True)) == {(0, 1), (1, 2), (2, 1)}


@pytest.mark.parametrize(
    ("default", "own", "links"),
    [
        ("undirected", 'directed="true"', {(0, 1): 10, (1, 2): 20, (2, 1): 20}),
        ("undirected", 'directed="1"', {(0, 1): 10, (1, 2): 20, (2, 1): 20}),
        ("undirected", 'directed="false"', {(0, 1): 10, (1, 0): 10, (1, 2): 20, (2, 1): 20}),
        ("directed", 'directed="false"', {(0, 1): 10, (1, 0): 10, (1, 2): 10, (2, 1): 10}),
        ("directed", 'directed="0"', {(0, 1): 10, (1, 0): 10, (1, 2): 10, (2, 1): 10}),
        ("directed", 'directed="true"', {(0, 1): 10, (1, 2): 10, (2, 1): 10}),
    ],
)
def test_a_link_is_directed_as_it_says_itself(
    tmp_path: Path, default: str, own: str, links: dict[tuple[int, int], float]
) -> None:
    text = GRAPHML.replace("undirected", default).replace('<edge source="0"', f'<edge {own} source="0"')
    (tmp_path / "zoo.graphml").write_text(text)
    found = read_graphml(tmp_path / "zoo.graphml", capacity=10)
    assert dict(zip(zip(found.tail, found.head, strict=True), found.capacity, strict=True)) == links


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not xml", "is not XML"),
        ("<a/>", "has no <graphml>"),
        (GRAPHML.replace('<node id="7"/>', ""), "node '7', which is not among its 2 nodes"),
        (GRAPHML.replace('id="7"', 'id="0"'), "node '0' twice"),
        (GRAPHML.replace("<edge", "<!-- ").replace("/></graph>", " --></graph>"), "is not XML"),
        (GRAPHML.replace("utf-8", "foo-8"), "is not XML .*unknown encoding: foo-8"),
        (GRAPHML.replace("utf-8", "gbk"), "is not XML .*encodings are not supported"),
        (GRAPHML.replace("utf-8", "utf-7"), "is not XML"),
        (GRAPHML.replace('<node id="7"/>', "<node/>"), "has a <node> without an id"),
        (
            GRAPHML.replace('<edge source="0"', "<edge"),
            "an <edge> from '' to '7'; a source and a target are needed",
        ),
        (GRAPHML.replace('source="0" target="7"', 'source="0"'), "has an <edge> from '0' to ''"),
        (
            GRAPHML.replace('source="0"', 'source="0" directed="yes"'),
            "directed='yes'; true, false, 1, 0 are accepted",
        ),
        ("\n".join(line for line in GRAPHML.splitlines() if "edge source" not in line), "has no <edge>"),
    ],
)
def test_a_bad_file_gets_one_clear_sentence(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.graphml").write_text(text)
    with pytest.raises(ValueError, match=r"bad\.graphml: .*" + message):
        read_graphml(tmp_path / "bad.graphml")


def test_bad_problems_get_one_clear_sentence() -> None:
    good = random_problem(0)
    with pytest.raises(ValueError, match=r"demand: has shape \(1,\), not \(15,\)"):
        TrafficProblem(np.ones(1), good.capacity, good.paths)
    with pytest.raises(ValueError, match="capacity: has 1 edges"):
        TrafficProblem(good.demand, np.ones(1), good.paths)
    with pytest.raises(ValueError, match=r"tail\[0\]: is an edge from a node to itself"):
        Topology(2, np.array([0]), np.array([0]), np.ones(1))
    with pytest.raises(ValueError, match="the same edge twice"):
        Topology(2, np.array([0, 0]), np.array([1, 1]), np.ones(2))
    with pytest.raises(ValueError, match=r"source\[0\]: is the target too"):
        edge_disjoint_paths(Topology(2, np.array([0]), np.array([1]), np.ones(1)), np.array([1]), np.array([1]))
    with pytest.raises(ValueError, match="links: is 9; of these 40 nodes, 39 to"):
        kdl_like(0, nodes=40, links=9)
    with pytest.raises(ValueError, match="tolerance: is 0, not above 0"):
        PathFlow(tolerance=0)
    problem = random_problem(0)
    with pytest.raises(ValueError, match=r"flow: has shape \(1,\), not"):
        problem.loads(np.ones(1))
    with pytest.raises(ValueError, match=r"capacity: has shape \(24, 1\); \(edges,\) is accepted"):
        TrafficProblem(good.demand, np.ones((24, 1)), good.paths)


def test_filling_up_refuses_what_is_no_flow_or_no_demand_of_the_problem() -> None:
    problem = random_problem(0)
    none = np.zeros(problem.paths.count)
    for use in (problem.excess, lambda flow: fill(problem, flow)):
        with pytest.raises(ValueError, match=r"flow: has shape \(1,\), not"):
            use(np.ones(1))
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match="flow: has entries that are not finite"):
            fill(problem, np.full_like(none, value))
    for j in (-1, 15):
        with pytest.raises(ValueError, match=rf"order\[1\]: is {j}, not a demand below 15"):
            fill(problem, none, np.array([0, j]))
    for order in (np.zeros(2), np.zeros((2, 1), dtype=int)):
        with pytest.raises(ValueError, match=r"order: is of .*; numbers of demands are accepted"):
            fill(problem, none, order)


@pytest.mark.parametrize(
    ("make", "nodes", "links", "message"),
    [
        (asn_like, 1, 0, "nodes: is 1; 2 or more are accepted"),
        (asn_like, 3, 10, "links: is 10; of 3 nodes, 2 to 3 are accepted"),
        (asn_like, 10, 5, "links: is 5; of 10 nodes, 9 to 45 are accepted"),
        (kdl_like, 5, 4, "nodes: is 5; 7 or more are accepted"),
    ],
)
def test_random_topologies_refuse_sizes_they_cannot_have(
    make: Callable[..., Topology], nodes: int, links: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make(0, nodes=nodes, links=links)


@pytest.mark.parametrize(
    ("make", "nodes", "links"), [(asn_like, 2, 1), (asn_like, 9, 8), (asn_like, 9, 36), (kdl_like, 7, 6)]
)
def test_random_topologies_have_the_links_asked_for_up_to_the_ends_of_the_range(
    make: Callable[..., Topology], nodes: int, links: int
) -> None:
    topology = make(0, nodes=nodes, links=links)
    assert topology.edges == 2 * links
    assert np.isfinite(topology.hops()).all()
