"""Where configurations go: nothing is split, nobody moves without need, and everything within the limits fits."""

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.contract.configuration import Configuration, ConfigurationSet
from coadapt.policies.placing.demand import Demand
from coadapt.policies.placing.ledger import Ledger
from coadapt.policies.placing.placer import PlacementResult, Placer
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rounds import cluster, on

B = "b"


def part(gpus: int, gpu_type: str = B) -> Configuration:
    return Configuration(1, gpus, gpu_type)


def check(result: PlacementResult, wanted: dict[str, Configuration], where: Cluster) -> None:
    """Check the placement rules, and that no node is over its capacity."""
    used = dict.fromkeys(where.by_id, 0)
    sharers: dict[str, list[str]] = {}
    for job, placement in result.placements.items():
        c = wanted[job]
        assert placement.gpu_type == c.gpu_type
        assert tuple(sorted((s.gpus for s in placement.shares), reverse=True)) == c.shape
        for share in placement.shares:
            used[share.node_id] += share.gpus
            sharers.setdefault(share.node_id, []).append(job)
            if c.node_gpus:
                assert where.by_id[share.node_id].gpus == c.node_gpus
    assert all(used[n] <= node.gpus for n, node in where.by_id.items())
    for jobs in sharers.values():
        assert len(jobs) == 1 or not any(wanted[job].node_gpus for job in jobs)


def test_unchanged_placements_are_the_same_objects() -> None:
    current = {"x": on(B, n1=2), "y": on(B, n0=4)}
    result = Placer().place({"x": part(2), "y": part(4), "z": part(2)}, current, cluster("2x b:4"))
    assert result.placements["x"] is current["x"]
    assert result.placements["y"] is current["y"]
    assert result.placements["z"].by_node == {"b-001": 2}  # best fit beside x
    assert not result.evicted
    assert not result.migrated


def test_small_jobs_fill_the_fullest_node() -> None:
    result = Placer().place({"x": part(2), "y": part(1)}, {"x": on(B, n1=2)}, cluster("3x b:4"))
    assert result.placements["y"].by_node == {"b-001": 1}


def test_a_job_that_grows_stays_on_its_node_if_it_can() -> None:
    current = {"x": on(B, n1=1), "y": on(B, n0=2)}
    result = Placer().place({"x": part(2), "y": part(2)}, current, cluster("2x b:4"))
    assert result.placements["x"].by_node == {"b-001": 2}
    assert not result.migrated


def test_fragmentation_moves_one_small_job_and_counts_it() -> None:
    current = {"x": on(B, n0=1), "y": on(B, n1=2)}
    wanted = {"x": part(1), "y": part(2), "z": part(4)}
    result = Placer().place(wanted, current, cluster("2x b:4"))
    check(result, wanted, cluster("2x b:4"))
    assert result.evicted == ("x",)
    assert result.migrated == ("x",)
    assert not result.unplaced


def test_a_pinned_job_is_never_moved() -> None:
    current = {"x": on(B, n0=1), "y": on(B, n1=2)}
    result = Placer().place({"x": part(1), "y": part(2), "z": part(4)}, current, cluster("2x b:4"), {"x"})
    assert result.placements["x"] is current["x"]
    assert result.evicted == ("y",)
    assert result.placements["z"].by_node == {"b-001": 4}


def test_whole_nodes_are_cleared_where_that_costs_fewest_moves() -> None:
    current = {"w": on(B, n0=1), "x": on(B, n0=1), "y": on(B, n1=2)}
    wanted = {"w": part(1), "x": part(1), "y": part(2), "z": Configuration(2, 8, B, 4)}
    result = Placer().place(wanted, current, cluster("3x b:4"))
    check(result, wanted, cluster("3x b:4"))
    assert result.evicted == ("y",)


def test_what_cannot_fit_is_left_out_and_named() -> None:
    result = Placer().place({"x": part(4), "y": part(4)}, {}, cluster("1x b:4"))
    assert result.unplaced == ("y",)
    assert set(result.placements) == {"x"}


def test_a_type_or_a_node_size_that_is_gone_has_no_room() -> None:
    wanted = {"v": part(1, "gone"), "w": part(8), "x": Configuration(2, 16, B, 8), "y": part(2)}
    result = Placer().place(wanted, {}, cluster("2x b:4"))
    assert result.unplaced == ("v", "w", "x")
    assert set(result.placements) == {"y"}


def test_nobody_is_moved_for_a_job_that_would_not_fit_all_the_same() -> None:
    current = {"x": on(B, n0=2), "y": on(B, n1=1), "z": on(B, n1=2)}
    wanted = {"w": part(4), "x": part(2), "y": part(1), "z": part(2)}
    result = Placer().place(wanted, current, cluster("2x b:4"), {"x", "z"})
    assert result.unplaced == ("w",)
    assert all(result.placements[job] is current[job] for job in current)
    assert not result.evicted


def test_a_job_is_not_moved_for_one_of_its_own_size() -> None:
    """Moving one job of 4 would do, but would leave that job without room; three small ones make way for good."""
    current = {"a": on(B, n0=1), "b": on(B, n0=1), "c": on(B, n0=1), "x": on(B, n1=4), "y": on(B, n2=1)}
    wanted = {"a": part(1), "b": part(1), "c": part(1), "x": part(4), "y": part(1), "z": part(4)}
    result = Placer().place(wanted, current, cluster("3x b:4"), {"y"})
    check(result, wanted, cluster("3x b:4"))
    assert result.evicted == ("a", "b", "c")
    assert not result.unplaced


def test_a_node_makes_way_more_than_once() -> None:
    where = cluster("1x b:4, 4x b:1")
    current = {f"s{i}": Placement(B, (NodeShare("b-000", 1),)) for i in range(4)}
    wanted = dict.fromkeys(current, part(1)) | {"x": part(2), "y": part(2)}
    result = Placer().place(wanted, current, where)
    check(result, wanted, where)
    assert not result.unplaced
    assert result.evicted == ("s0", "s1", "s2", "s3")


def test_what_clearing_costs_is_judged_by_who_is_there_now() -> None:
    """A node where one job of 1 sufficed before would cost two moves the next time; its neighbour costs one."""
    where = cluster("2x b:8, 1x b:3")
    current = {"p1": on(B, n0=1), "p2": on(B, n0=2), "p3": on(B, n0=2)}
    current |= {f"q{i}": on(B, n1=2) for i in range(3)}
    wanted = {job: part(placement.gpus) for job, placement in current.items()} | {"x": part(4), "y": part(4)}
    result = Placer().place(wanted, current, where)
    check(result, wanted, where)
    assert not result.unplaced
    assert result.evicted == ("p1", "q0")


@pytest.mark.parametrize("nodes", [8, 300])
def test_on_scattered_nodes_only_as_many_jobs_move_as_must(nodes: int) -> None:
    """One GPU of every node of 4 is taken, and half of the nodes are wanted whole."""
    where = cluster(f"{nodes}x b:4")
    current = {f"s{i:03d}": Placement(B, (NodeShare(node.id, 1),)) for i, node in enumerate(where.nodes)}
    wanted = dict.fromkeys(current, part(1)) | {f"l{i:03d}": part(4) for i in range(nodes // 2)}
    result = Placer().place(wanted, current, where)
    check(result, wanted, where)
    assert not result.unplaced
    assert result.evicted == tuple(f"s{i:03d}" for i in range(nodes // 2))


def test_a_job_whose_node_is_gone_is_placed_anew() -> None:
    result = Placer().place({"x": part(2)}, {"x": on(B, n7=2)}, cluster("1x b:4"), {"x"})
    assert result.placements["x"].by_node == {"b-000": 2}
    assert result.migrated == ("x",)


def test_a_job_that_lost_one_of_its_nodes_does_not_keep_the_lost_one() -> None:
    result = Placer().place({"x": part(4)}, {"x": on(B, n0=4, n7=4)}, cluster("1x b:4"))
    assert result.placements["x"].by_node == {"b-000": 4}
    assert not result.migrated


def test_the_default_demand_follows_the_gpus_and_never_exceeds_their_part_of_the_node() -> None:
    where = Cluster((Node("n", B, 4, cpus=2, memory_gib=0),))
    result = Placer().place({"x": part(2), "y": part(2)}, {}, where)
    assert [placement.shares[0].cpus for placement in result.placements.values()] == [1.0, 1.0]


def test_a_demand_is_met_in_full_and_nothing_is_held_of_what_a_node_does_not_state() -> None:
    where = Cluster((Node("n", B, 4, cpus=8, memory_gib=0),))
    (share,) = Placer().place({"x": part(2)}, {}, where, demands={"x": Demand(1.5, 4.0)}).placements["x"].shares
    assert (share.cpus, share.memory_gib) == (3.0, 0.0)


def many_cpus() -> Cluster:
    """Make b-0 with what its GPUs need, and b-1 with twice as many CPUs and GiB."""
    return Cluster((Node("b-0", B, 4, cpus=8, memory_gib=32), Node("b-1", B, 4, cpus=16, memory_gib=64)))


@pytest.mark.parametrize(
    ("demand", "node"),
    [
        (Demand(2.0), "b-0"),
        (Demand(5.0), "b-1"),
        (Demand(1.0, 16.0), "b-0"),
        (Demand(1.0, 17.0), "b-1"),
        (Demand(9.0), None),
        (Demand(1.0, 40.0), None),
    ],
)
def test_a_job_goes_where_its_cpus_and_memory_are_or_waits(demand: Demand, node: str | None) -> None:
    result = Placer().place({"x": part(2)}, {}, many_cpus(), demands={"x": demand})
    assert [share.node_id for p in result.placements.values() for share in p.shares] == ([node] if node else [])
    assert result.unplaced == (() if node else ("x",))


def test_where_one_job_has_most_cpus_others_find_another_node() -> None:
    current = {"x": Placement(B, (NodeShare("b-0", 1, cpus=8.0),))}
    result = Placer().place({"x": part(1), "y": part(1), "z": part(4)}, current, many_cpus())
    assert result.placements["x"] is current["x"]
    assert result.placements["z"].by_node == {"b-1": 4}
    assert result.unplaced == ("y",)


def test_a_job_finds_another_node_where_one_of_the_same_plan_takes_most_cpus() -> None:
    where = Cluster(tuple(Node(f"b-{i}", B, 4, cpus=8, memory_gib=32) for i in range(2)))
    wanted, demands = {"greedy": part(1), "small": part(1)}, {"greedy": Demand(8.0)}
    result = Placer().place(wanted, {}, where, demands=demands)
    assert {job: [*p.by_node] for job, p in result.placements.items()} == {"greedy": ["b-0"], "small": ["b-1"]}
    demands["greedy"] = Demand(1.0, 32.0)  # all memory of a node, of which the other wants none
    result = Placer().place(wanted, {}, where, demands=demands)
    assert {job: [*p.by_node] for job, p in result.placements.items()} == {"greedy": ["b-0"], "small": ["b-0"]}


def test_of_two_jobs_whose_cpus_do_not_fit_one_node_together_one_is_not_placed() -> None:
    where = Cluster((Node("b-0", B, 4, cpus=8, memory_gib=32),))
    result = Placer().place({"x": part(2), "y": part(1)}, {}, where, demands={"x": Demand(4.0)})
    assert [*result.placements] == ["x"]
    assert result.unplaced == ("y",)


def test_whole_nodes_have_the_cpus_that_are_asked_for() -> None:
    wanted = {"x": Configuration(1, 4, B, 4)}
    result = Placer().place(wanted, {}, many_cpus(), demands={"x": Demand(3.0)})
    assert result.placements["x"].by_node == {"b-1": 4}
    again = Placer().place(wanted | {"y": Configuration(1, 4, B, 4)}, {}, many_cpus(), demands={"x": Demand(3.0)})
    assert {job: [*p.by_node] for job, p in again.placements.items()} == {"x": ["b-1"], "y": ["b-0"]}


NODES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 8)), min_size=1, max_size=7)


def draw_allocation(found: ConfigurationSet, rng: np.random.Generator, count: int) -> list[int]:
    limits = found.limits()
    room = limits.capacity.copy()
    picked = []
    for c in rng.integers(0, len(found), count):
        if (limits.usage[:, c] <= room).all():
            room -= limits.usage[:, c]
            picked.append(int(c))
    return picked


@given(nodes=NODES, seed=st.integers(0, 2**32 - 1), extra=st.lists(st.sampled_from([3, 5, 6, 7, 10]), max_size=2))
@settings(max_examples=300)
def test_every_allocation_within_the_limits_is_placed_round_after_round(
    nodes: list[tuple[str, int]], seed: int, extra: list[int]
) -> None:
    """Submesh shape covering, with jobs already there too; who did not change is moved only if counted."""
    where = Cluster(tuple(Node(f"{t}-{i}", t, gpus) for i, (t, gpus) in enumerate(nodes)))
    found = ConfigurationSet(where, [(t, g, 1) for t in where.gpu_types for g in extra])
    rng = np.random.default_rng(seed)
    current: dict[str, Placement] = {}
    before: dict[str, Configuration] = {}
    for _ in range(3):
        picked = draw_allocation(found, rng, 30)
        wanted = {f"j{i}": found[c] for i, c in enumerate(picked)}
        result = Placer().place(wanted, current, where)
        check(result, wanted, where)
        assert result.unplaced == ()
        for job, c in wanted.items():
            if before.get(job) == c and job not in result.evicted:
                assert result.placements[job] is current[job]
        assert Placer().place(dict(reversed(wanted.items())), current, where) == result
        current, before = dict(result.placements), wanted


DEMANDS = [Demand(), Demand(0.0), Demand(0.5), Demand(2.0), Demand(6.0), Demand(1.0, 8.0), Demand(1.0, 40.0)]


@given(nodes=NODES, seed=st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_a_ledger_has_room_for_all_that_is_placed_whatever_cpus_and_memory_jobs_ask_for(
    nodes: list[tuple[str, int]], seed: int
) -> None:
    where = Cluster(
        tuple(
            Node(f"{t}-{i}", t, gpus, cpus=2.0 * gpus, memory_gib=16.0 * gpus) for i, (t, gpus) in enumerate(nodes)
        )
    )
    found = ConfigurationSet(where)
    rng = np.random.default_rng(seed)
    demands = {f"j{i}": DEMANDS[d] for i, d in enumerate(rng.integers(0, len(DEMANDS), 30))}
    current: dict[str, Placement] = {}
    for _ in range(3):
        wanted = {f"j{i}": found[c] for i, c in enumerate(draw_allocation(found, rng, 30))}
        current = dict(Placer().place(wanted, current, where, demands=demands).placements)
        ledger = Ledger(where)
        for job, placement in current.items():
            ledger.take(job, placement)


@given(nodes=NODES, seed=st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_what_fits_beside_pinned_jobs_is_placed_beside_them(nodes: list[tuple[str, int]], seed: int) -> None:
    where = Cluster(tuple(Node(f"{t}-{i}", t, gpus) for i, (t, gpus) in enumerate(nodes)))
    found = ConfigurationSet(where)
    rng = np.random.default_rng(seed)
    first = {f"j{i}": found[c] for i, c in enumerate(draw_allocation(found, rng, 10))}
    current = Placer().place(first, {}, where).placements
    pinned = {job for job in first if rng.random() < 0.4}
    limits = found.limits([current[job] for job in pinned])
    room, wanted = limits.capacity.copy(), {job: first[job] for job in pinned}
    for i, c in enumerate(rng.integers(0, len(found), 20)):
        if (limits.usage[:, c] <= room).all():
            room -= limits.usage[:, c]
            wanted[f"k{i}"] = found[int(c)]
    result = Placer().place(wanted, current, where, pinned)
    check(result, wanted, where)
    assert result.unplaced == ()
    assert all(result.placements[job] is current[job] for job in pinned)


@given(
    nodes=st.lists(st.sampled_from([1, 2, 3, 4, 5, 6, 8]), min_size=4, max_size=25),
    seed=st.integers(0, 2**32 - 1),
    extra=st.booleans(),
)
@settings(max_examples=150)
def test_a_crowd_of_small_jobs_makes_way_round_after_round(nodes: list[int], seed: int, extra: bool) -> None:
    """Most jobs stay and are small, some are pinned, and what the others want fits only if the small ones move."""
    where = Cluster(tuple(Node(f"n{i:02d}", B, gpus) for i, gpus in enumerate(nodes)))
    found = ConfigurationSet(where, [(B, g, 1) for g in (3, 5, 6, 10)] if extra else ())
    rng = np.random.default_rng(seed)
    chance = 1.0 / found.arrays.gpus ** rng.choice([0.5, 1.0, 2.0])
    column = {c: i for i, c in enumerate(found.items)}
    wanted: dict[str, Configuration] = {}
    current: dict[str, Placement] = {}
    for step in range(5):
        staying = {job: c for job, c in wanted.items() if rng.random() < 0.7}
        pinned = {job for job in staying if rng.random() < 0.15}
        limits = found.limits([current[job] for job in pinned])
        room = limits.capacity.copy()
        next_wanted = {job: staying[job] for job in pinned}
        asking = [(job, column[c]) for job, c in staying.items() if job not in pinned]
        drawn = rng.choice(len(found), 100, p=chance / chance.sum())
        asking += [(f"j{step}-{i:03d}", int(c)) for i, c in enumerate(drawn)]
        for job, c in asking:
            if (limits.usage[:, c] <= room).all():
                room -= limits.usage[:, c]
                next_wanted[job] = found[c]
        result = Placer().place(next_wanted, current, where, pinned)
        check(result, next_wanted, where)
        assert result.unplaced == ()
        for job in staying.keys() & next_wanted.keys():
            assert (result.placements[job] is current[job]) == (job not in result.evicted)
        assert not pinned & set(result.evicted)
        assert Placer().place(dict(reversed(next_wanted.items())), current, where, pinned) == result
        wanted, current = next_wanted, dict(result.placements)
