"""Free GPUs are found as a look at every node would find them, after whatever was taken and given back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.resources import Totals
from coadapt.policies.placing.demand import WISH, Demand
from coadapt.policies.placing.free_gpu_index import FreeGpuIndex, Part, PreemptionCandidates
from hypothesis import given, settings
from hypothesis import strategies as st


def rooms(*nodes: int, free: list[int] | None = None, cpus: float = 0.0, memory_gib: float = 0.0) -> FreeGpuIndex:
    """Return nodes with so many GPUs each; of CPUs and memory they state so much for each node."""
    where = Cluster(tuple(Node(f"n{at:02}", "t4", gpus, cpus, memory_gib) for at, gpus in enumerate(nodes)))
    totals = Totals.of(where, "t4")
    return FreeGpuIndex(
        where.of_type("t4"), totals, list(free or nodes), totals.cpus.copy(), totals.memory_gib.copy()
    )


# --- best fit --------------------------------------------------------------------------------------------------


def test_a_job_goes_to_the_node_with_the_least_room_that_is_enough_and_of_equals_to_the_lowest() -> None:
    found = rooms(4, 4, 4, free=[4, 2, 2])
    assert [found.best_fit(gpus, {}, WISH) for gpus in (1, 2, 3, 5)] == [1, 1, 0, None]


def test_a_job_rather_stays_on_a_node_that_it_is_on() -> None:
    found = rooms(8, 8, 8, free=[8, 1, 2])
    assert found.best_fit(1, {0: 2}, WISH) == 0
    assert found.best_fit(2, {1: 4}, WISH) == 2, "there is no room at home"


@settings(max_examples=50)
@given(
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=8),
    changes=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 8), st.integers(1, 8)), max_size=30),
)
def test_after_any_changes_the_node_found_is_the_one_that_a_look_at_all_finds(
    sizes: list[int], changes: list[tuple[int, int, int]]
) -> None:
    found = rooms(*sizes)
    for at, free, asked in changes:
        node = at % len(sizes)
        taken = found.free[node] - min(free, sizes[node])
        change = found.take if taken >= 0 else found.give_back
        change(node, abs(taken), 0.0, 0.0)
        enough = [(left, n) for n, left in enumerate(found.free) if left >= asked]
        assert found.best_fit(asked, {}, WISH) == (min(enough)[1] if enough else None)
        idle = [n for n, left in enumerate(found.free) if left == sizes[n] == asked]
        assert found.empties(asked, WISH) == len(idle)
        assert found.whole_nodes(len(idle) + 1, asked, {}, WISH) is None


# --- CPUs and memory ---------------------------------------------------------------------------------------------


def test_a_job_goes_where_its_cpus_are() -> None:
    found = rooms(4, 4, free=[2, 4], cpus=8.0)
    found.take(0, 0, 6.0, 0.0)
    assert found.best_fit(1, {}, Demand(4.0)) == 1
    assert found.best_fit(1, {0: 1}, Demand(4.0)) == 1, "not even at home without them"
    assert found.best_fit(1, {}, Demand(9.0)) is None


def test_a_job_of_many_cpus_goes_where_it_leaves_other_gpus_their_cpus() -> None:
    found = rooms(8, 8, free=[4, 8], cpus=16.0)
    found.take(0, 0, 8.0, 0.0)
    assert found.best_fit(1, {}, Demand(5.0)) == 0, "4 of 8 CPUs are for the GPUs that are left"
    found.take(0, 1, 5.0, 0.0)
    assert found.best_fit(1, {}, Demand(2.0)) == 1, "3 free GPUs beside 3 CPUs would lose one"
    assert found.best_fit(1, {}, WISH) == 0


def test_once_a_job_has_more_than_its_part_a_wish_looks_for_cpus_too() -> None:
    found = rooms(4, 4, cpus=8.0)
    assert not found.uneven
    found.take(0, 2, 8.0, 0.0)
    assert found.best_fit(1, {}, WISH) == 1
    found.take(1, 2, 8.0, 0.0)
    assert found.best_fit(1, {}, WISH) is None


def test_nodes_that_state_no_cpus_and_no_memory_have_enough() -> None:
    found = rooms(4)
    found.take(0, 2, 0.0, 0.0)
    assert (found.cpus, found.uneven) == ([math.inf], False)
    assert found.best_fit(2, {}, Demand(1000.0, 1000.0)) == 0


def test_whole_nodes_that_lack_memory_are_left_for_others() -> None:
    found = rooms(4, 4, 4, memory_gib=64.0)
    found.take(0, 0, 0.0, 40.0)
    asks = Demand(memory_gib_per_gpu=10.0)
    assert found.whole_nodes(3, 4, {}, asks) is None
    assert found.whole_nodes(2, 4, {}, asks) == [1, 2]
    assert found.whole_nodes(1, 4, {}, Demand(cpus_per_gpu=2.0)) == [0], "nobody took what was found"


def test_whole_nodes_are_those_of_the_job_then_the_lowest_of_that_size() -> None:
    found = rooms(4, 8, 4, 4, 4)
    assert found.whole_nodes(2, 4, {3: 4}, WISH) == [0, 3]
    for node in (0, 3):
        found.take(node, 4, 0.0, 0.0)
    assert found.whole_nodes(2, 4, {}, WISH) == [2, 4]
    assert found.whole_nodes(1, 8, {}, WISH) == [1]


# --- who makes way -----------------------------------------------------------------------------------------------


def crowd(*parts: tuple[int, int], sizes: tuple[int, ...]) -> tuple[FreeGpuIndex, PreemptionCandidates]:
    """Return nodes on which jobs of (node, GPUs) are: "j0", "j1", …"""
    used = np.zeros(len(sizes), int)
    for node, gpus in parts:
        used[node] += gpus
    room = rooms(*sizes, free=[size - int(gpus) for size, gpus in zip(sizes, used, strict=True)])
    return room, PreemptionCandidates(
        room, [Part(gpus, f"j{i}", node, 0.0, 0.0) for i, (node, gpus) in enumerate(parts)]
    )


@pytest.mark.parametrize(
    ("parts", "gpus", "going"),
    [
        ([(0, 1), (0, 1), (0, 2), (1, 2)], 4, ["j3"]),  # one job rather than three
        ([(0, 2), (1, 1)], 4, ["j1"]),  # of one job each, the smaller
        ([(0, 4), (1, 4)], 4, []),  # nobody goes for a job of its own size
        ([(0, 1), (0, 1), (0, 1), (0, 1), (1, 4)], 2, ["j0", "j3"]),
        ([(0, 3), (1, 3)], 4, []),  # a job of 3 is in a block of 4
    ],
)
def test_the_fewest_smaller_jobs_of_one_node_make_way(
    parts: list[tuple[int, int]], gpus: int, going: list[str]
) -> None:
    room, tenants = crowd(*parts, sizes=(4, 4))
    gone = tenants.make_way(gpus, WISH)
    assert sorted(part.job for part in gone) == going
    assert any(free >= gpus for free in room.free) is bool(going)


def test_whole_nodes_are_cleared_of_whoever_is_there_and_only_as_many_as_lack() -> None:
    room, tenants = crowd((0, 1), (0, 1), (1, 3), (2, 2), sizes=(4, 4, 4, 4, 8))
    gone = tenants.clear_nodes(3, 4, WISH)
    assert sorted(part.job for part in gone) == ["j2", "j3"]
    assert room.empties(4, WISH) == 3


def test_nobody_goes_where_that_would_not_be_enough() -> None:
    room, tenants = crowd((0, 1), (1, 1), sizes=(4, 4))
    assert tenants.clear_nodes(3, 4, WISH) == []
    assert room.free == [3, 3]
    assert len(tenants.clear_nodes(2, 4, WISH)) == 2, "and they can still go for others"


# --- who makes way for CPUs and memory ---------------------------------------------------------------------------


def crowd_with(
    *parts: tuple[int, int, float, float], sizes: tuple[int, ...]
) -> tuple[FreeGpuIndex, PreemptionCandidates]:
    """Return nodes of 16 CPUs and 64 GiB, on which jobs of (node, GPUs, CPUs, GiB) are: "j0", "j1", …"""
    room = rooms(*sizes, cpus=16.0, memory_gib=64.0)
    for node, *amounts in parts:
        room.take(node, *amounts)
    held = [Part(gpus, f"j{i}", node, cpus, gib) for i, (node, gpus, cpus, gib) in enumerate(parts)]
    return room, PreemptionCandidates(room, held)


@pytest.mark.parametrize(
    ("parts", "gpus", "demand", "going"),
    [
        # The node has the GPUs and lacks the CPUs: the job that holds most of them goes.
        ([(0, 1, 2.0, 0.0), (0, 1, 10.0, 0.0), (0, 1, 1.0, 0.0)], 2, Demand(4.0), ["j1"]),
        # It lacks both.
        ([(0, 2, 2.0, 0.0), (0, 2, 14.0, 0.0)], 4, Demand(1.0, 16.0), ["j0", "j1"]),
        ([(0, 1, 1.0, 40.0), (0, 1, 1.0, 4.0)], 2, Demand(1.0, 16.0), ["j0"]),
        # A job of the same size with fewer CPUs may find them elsewhere.
        ([(0, 1, 10.0, 0.0)], 1, Demand(12.0), ["j0"]),
        ([(0, 1, 12.0, 0.0)], 1, Demand(12.0), []),
        # A larger job stays, even if that leaves too little.
        ([(0, 2, 14.0, 0.0), (0, 1, 1.0, 0.0)], 1, Demand(12.0), []),
    ],
)
def test_the_fewest_jobs_make_way_for_cpus_and_memory(
    parts: list[tuple[int, int, float, float]], gpus: int, demand: Demand, going: list[str]
) -> None:
    room, tenants = crowd_with(*parts, sizes=(4,))
    assert not room.has(0, gpus, demand) or room.free[0] < gpus
    assert sorted(part.job for part in tenants.make_way(gpus, demand)) == going
    assert (room.has(0, gpus, demand) and room.free[0] >= gpus) is bool(going)


def test_nodes_without_what_is_asked_for_do_not_count_as_free() -> None:
    where = Cluster((Node("n0", "t4", 4, 4.0), Node("n1", "t4", 4, 32.0)))
    totals = Totals.of(where, "t4")
    room = FreeGpuIndex(where.of_type("t4"), totals, [4, 4], totals.cpus.copy(), totals.memory_gib.copy())
    room.take(1, 1, 1.0, 0.0)
    tenants = PreemptionCandidates(room, [Part(1, "j0", 1, 1.0, 0.0)])
    assert room.empties(4, WISH) == 1
    assert room.empties(4, Demand(8.0)) == 0
    assert [part.job for part in tenants.clear_nodes(1, 4, Demand(8.0))] == ["j0"]
