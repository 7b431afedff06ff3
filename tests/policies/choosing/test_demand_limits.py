"""CPUs and memory limit a round as GPUs do, where jobs ask for more than their GPUs' part of a node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.catalogue import make_policy
from coadapt.policies.choosing.demand_limits import MOST_KINDS, DemandKinds
from coadapt.policies.contract.configuration import ConfigurationSet
from coadapt.policies.contract.round import JobView, Round
from coadapt.policies.placing.demand import WISH, Demand
from coadapt.policies.placing.ledger import Ledger
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rounds import after, cluster, rigid

NODE = "1x a:4"  # 8 CPUs and 64 GiB
HEAVY = Demand(4.0)


def node(name: str, gpus: int, cpus: float, memory_gib: float = 0.0) -> Node:
    return Node(name, "a", gpus, cpus, memory_gib)


# --- kinds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("demand", [WISH, Demand(2.0), Demand(0.5), Demand(0.0, 16.0), Demand(1.0, 1.0)])
def test_demands_within_the_part_of_the_gpus_make_no_limits(demand: Demand) -> None:
    where = cluster(NODE)
    kinds, configurations = DemandKinds(where, [demand]), ConfigurationSet(where)
    limits = configurations.limits()
    assert kinds.demands == (WISH,)
    assert kinds.of(demand) == 0
    assert kinds.limits(limits, configurations, ()) is limits


def test_one_demand_beyond_the_part_makes_a_kind_of_every_demand() -> None:
    kinds = DemandKinds(cluster(NODE), [Demand(0.5), HEAVY])
    assert kinds.demands == (WISH, Demand(0.5), HEAVY)
    assert [kinds.of(demand) for demand in (WISH, Demand(0.5), HEAVY)] == [0, 1, 2]


def test_nodes_that_state_no_cpus_have_enough_for_any_demand() -> None:
    assert DemandKinds(Cluster((Node("n", "a", 4),)), [Demand(100.0, 100.0)]).demands == (WISH,)


def test_many_demands_share_kinds_that_count_no_more_than_they_ask_for() -> None:
    demands = [Demand(1.0 + i / 10, i / 2) for i in range(10 * MOST_KINDS)]
    kinds = DemandKinds(cluster(NODE), demands)
    assert 1 < kinds.count < len(demands) / 2
    for demand in demands:
        counted = kinds.demands[kinds.of(demand)]
        assert counted.cpus_per_gpu <= demand.cpus_per_gpu <= 2 * counted.cpus_per_gpu
        assert counted.memory_gib_per_gpu <= demand.memory_gib_per_gpu <= 2 * counted.memory_gib_per_gpu


# --- limits ------------------------------------------------------------------------------------------------------


def test_each_kind_takes_its_own_cpus_and_a_full_node_takes_all() -> None:
    where = cluster("2x a:4")
    kinds, configurations = DemandKinds(where, [HEAVY]), ConfigurationSet(where)
    limits = kinds.limits(configurations.limits(), configurations, ())
    assert configurations.names == ("1xa", "2xa", "4xa", "8xa (2 nodes)")
    assert limits.gpu_types == ("a", "a")
    assert limits.of_kind(0).tolist() == [[1.0, 2.0, 4.0, 8.0], [1.0, 2.0, 8.0, 16.0]]
    assert limits.of_kind(1).tolist() == [[1.0, 2.0, 4.0, 8.0], [4.0, 8.0, 16.0, 32.0]]
    assert limits.capacity == pytest.approx([8.0, 16.0])


def test_what_pinned_jobs_hold_is_not_there_for_others() -> None:
    where = cluster("2x a:4")
    kinds, configurations = DemandKinds(where, [HEAVY]), ConfigurationSet(where)
    held = [Placement("a", (NodeShare("a-000", 1, cpus=6.0),))]
    limits = kinds.limits(configurations.limits(held), configurations, held)
    assert limits.capacity[-1] == pytest.approx(10.0)


DEMANDS = st.builds(Demand, st.sampled_from([0.0, 0.5, 1.0, 1.5, 4.0, 9.0]), st.sampled_from([0.0, 1.0, 30.0]))
NODES = st.lists(
    st.tuples(st.sampled_from([2, 4, 6, 8]), st.sampled_from([1.0, 6.0, 16.0]), st.sampled_from([0.0, 64.0])),
    min_size=1,
    max_size=4,
)


@settings(max_examples=200)
@given(nodes=NODES, asks=st.lists(st.tuples(DEMANDS, st.integers(0, 20)), max_size=12), pinned=st.integers(0, 2))
def test_whatever_fits_on_the_nodes_is_within_the_limits(
    nodes: list[tuple[int, float, float]], asks: list[tuple[Demand, int]], pinned: int
) -> None:
    where = Cluster(tuple(node(f"n{i}", *about) for i, about in enumerate(nodes)))
    kinds, configurations = DemandKinds(where, [demand for demand, _ in asks]), ConfigurationSet(where)
    ledger, taken, held = Ledger(where), [], []
    for i, (demand, at) in enumerate(asks):
        c = configurations[at % len(configurations)]
        placement = ledger.find(c.gpus, demand=demand)
        if placement is None or (column := configurations.index(placement)) < 0:
            continue
        ledger.take(f"job-{i}", placement)
        if len(held) < pinned:
            held.append(placement)
        else:
            taken.append((kinds.of(demand), column))
    plain = configurations.limits(held)
    limits = kinds.limits(plain, configurations, held)
    used = sum((limits.of_kind(k)[:, c] for k, c in taken), np.zeros(len(limits.capacity)))
    assert (used[len(plain.capacity) :] <= limits.capacity[len(plain.capacity) :]).all()


# --- rounds ------------------------------------------------------------------------------------------------------

PROGRAMS = ("sia", "coadapt")


def planned(policy: str, where: Cluster, jobs: Sequence[JobView]) -> dict[str, Placement]:
    """Return what a round gives, which must fit on the nodes."""
    plan = make_policy(policy).plan(Round(0.0, 60.0, where, list(jobs)))
    ledger = Ledger(where)
    for id, placement in plan.placements.items():
        ledger.take(id, placement)
    return dict(plan.placements)


def some(name: str, count: int, **about: float) -> list[JobView]:
    return [rigid(f"{name}{i}", submitted_s=float(i), **about) for i in range(count)]


@pytest.mark.parametrize("policy", PROGRAMS)
def test_no_gpu_idles_for_a_job_whose_cpus_are_gone(policy: str) -> None:
    jobs = [*some("heavy", 2, cpus_per_gpu=6.0), *some("light", 3)]
    given = planned(policy, cluster(NODE), jobs)
    assert len(given) == 3, "6 CPUs and twice 1, or three times 1"


@pytest.mark.parametrize("policy", PROGRAMS)
def test_no_gpu_idles_for_a_job_whose_memory_is_gone(policy: str) -> None:
    jobs = [*some("heavy", 4, memory_gib_per_gpu=60.0), *some("light", 3)]
    assert len(planned(policy, cluster(NODE), jobs)) == 4


@pytest.mark.parametrize("policy", PROGRAMS)
def test_cpus_that_are_free_on_no_single_node_are_given_to_others(policy: str) -> None:
    """Three jobs of 10 CPUs are within the 32 CPUs of two nodes, and only two of them fit."""
    jobs = [*some("heavy", 3, cpus_per_gpu=10.0), *some("light", 12)]
    given = planned(policy, cluster("2x a:8"), jobs)
    assert sum(id.startswith("heavy") for id in given) == 2
    assert sum(id.startswith("light") for id in given) == 12


@pytest.mark.parametrize("policy", PROGRAMS)
def test_a_job_that_found_no_room_in_one_round_has_its_chance_in_the_next(policy: str) -> None:
    where, planner = cluster("2x a:8"), make_policy(policy)
    jobs = some("heavy", 3, cpus_per_gpu=10.0)
    plan = planner.plan(Round(0.0, 60.0, where, jobs))
    (left,) = {job.id for job in jobs} - plan.placements.keys()
    assert plan.decision(left).reason == "no_cpus_or_memory"
    jobs = [job for job in after(jobs, plan) if job.placement is None or job.id.endswith("0")]
    assert planner.plan(Round(60.0, 60.0, where, jobs)).placements.keys() == {job.id for job in jobs}


@pytest.mark.parametrize("policy", PROGRAMS)
def test_demands_that_come_and_go_leave_the_plan_what_a_fresh_policy_makes_of_it(policy: str) -> None:
    where, planner = cluster("3x a:4, 1x b:8"), make_policy(policy)
    rng, jobs = np.random.default_rng(4), some("job", 5)
    for turn in range(12):
        jobs.append(rigid(f"new{turn}", 1 + turn % 3, submitted_s=10.0 + turn, cpus_per_gpu=float(turn % 4) * 2))
        jobs.pop(int(rng.integers(len(jobs))))
        now = Round(60.0 * turn, 60.0, where, jobs)
        plan, fresh = planner.plan(now), make_policy(policy).plan(now)
        assert plan.objective == pytest.approx(fresh.objective, rel=2e-3)
        ledger = Ledger(where)
        for id, placement in plan.placements.items():
            ledger.take(id, placement)
        jobs = after(jobs, plan)


@pytest.mark.parametrize("policy", PROGRAMS)
def test_cpus_are_counted_when_many_other_demands_join_those_that_are_powers_of_two(policy: str) -> None:
    where, planner = cluster("1x a:8"), make_policy(policy)
    few = [rigid(f"few{n}", cpus_per_gpu=float(n)) for n in (2, 4, 8)]
    many = [*few, *(rigid(f"many{i}", submitted_s=1.0, cpus_per_gpu=2.25 + i / 4) for i in range(MOST_KINDS))]
    planner.plan(Round(0.0, 60.0, where, few))
    then = Round(60.0, 60.0, where, many)
    plan, fresh = planner.plan(then), make_policy(policy).plan(then)
    assert plan.objective == pytest.approx(fresh.objective)
    assert plan.placements == fresh.placements


def test_a_job_of_many_cpus_is_told_what_these_are_worth_too() -> None:
    where = cluster(NODE)
    jobs = [*some("heavy", 1, cpus_per_gpu=8.0), *some("light", 4)]
    plan = make_policy("sia").plan(Round(0.0, 60.0, where, jobs))
    assert plan.placements.keys() == {job.id for job in jobs[1:]}
    found = plan.configurations
    assert found is not None
    assert plan.costs["heavy0"][0] > plan.costs["light0"][0] == pytest.approx(plan.prices["a"])
