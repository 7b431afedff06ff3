"""Pollux serves everybody, grows jobs that scale, leaves others alone, and its plans can always be carried out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from coadapt.core.cluster import Cluster
from coadapt.core.placement import Placement
from coadapt.optimizer.genetic import Problem, search
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.policy import Policy
from coadapt.policies.contract.round import JobView, Note, Plan, Round
from coadapt.policies.pollux import VIRTUAL_GPUS
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rounds import after, assert_within, cluster, job, model, on

MIXED = cluster("2x t4:4, 1x a100:8")
QUICK = {"population": 30, "generations": 30}
EITHER = model({"t4": 100.0, "a100": 300.0})


def pollux(**options: int) -> Policy:
    return make_policy("pollux", **{**QUICK, **options})


def plan(jobs: list[JobView], where: Cluster = MIXED, **options: int) -> dict[str, Placement]:
    return dict(pollux(**options).plan(Round(1000.0, 60.0, where, jobs)).placements)


def rounds(policy: Policy, jobs: list[JobView], where: Cluster, count: int) -> list[Plan]:
    plans = []
    for i in range(count):
        plans.append(policy.plan(Round(60.0 * i, 60.0, where, jobs)))
        jobs = after(jobs, plans[-1])
    return plans


def test_while_there_is_room_every_job_is_served() -> None:
    assert len(plan([job(str(i), model=EITHER) for i in range(8)])) == 8
    many = cluster("32x t4:4")
    assert len(plan([job(str(i), model=EITHER) for i in range(100)], many)) == 100


def test_a_job_alone_grows_to_at_most_twice_what_it_had() -> None:
    runs = job("grows", model=EITHER, placement=on("a100", n0=2), largest_gpus={"a100": 2})
    assert plan([runs])["grows"].gpus == 4
    fresh = job("new", model=EITHER, largest_gpus={})
    assert plan([fresh])["new"].gpus == 1
    assert plan([job("new", model=EITHER, largest_gpus={}, min_gpus=3)])["new"].gpus == 3


def test_nothing_moves_where_a_restart_costs_more_than_it_brings() -> None:
    young = job(
        "young", model=model({"t4": 100.0, "a100": 100.0}), placement=on("t4", n0=1), largest_gpus={"t4": 8},
        age_s=40.0, restarts=1, restart_cost_s=30.0, max_gpus=2,
    )  # fmt: skip
    assert plan([young])["young"] == on("t4", n0=1)


def test_two_jobs_that_share_a_large_node_both_stay_on_it() -> None:
    jobs = [
        job(name, model=EITHER, placement=on("a100", n0=4), largest_gpus={"a100": 4}, max_gpus=4)
        for name in ("one", "other")
    ]
    assert plan(jobs) == {"one": on("a100", n0=4), "other": on("a100", n0=4)}


def test_where_jobs_are_as_well_off_as_can_be_nothing_moves_from_round_to_round() -> None:
    jobs = [job(str(i), model=EITHER, largest_gpus={"t4": 1}, max_gpus=2, attained_gpu_s=i) for i in range(8)]
    *_, before, last = rounds(pollux(population=100, generations=100), jobs, MIXED, 12)
    assert last.placements == before.placements
    assert sum(placement.gpus for placement in last.placements.values()) == 16


def test_the_search_ends_where_every_matrix_has_been_seen() -> None:
    fixed = job("fixed", model=EITHER, adaptivity="rigid", gpus=3)
    assert plan([fixed], population=10, generations=10**9)["fixed"].gpus == 3


def three_jobs(**changed: Any) -> Problem:
    """Return a problem on two nodes of four GPUs of one type."""
    speedup = np.zeros((3, 3, 9))
    speedup[:, 1:, 1:] = np.arange(1, 9) ** 0.7
    ones, flags = np.ones((3, 1), np.int64), np.zeros(3, bool)
    given = Problem(
        speedup, np.zeros((3, 2), np.int16), np.ones(3), np.full(2, 4), ones, 8 * ones, ones,
        np.zeros(2, np.int64), np.arange(2), flags, flags,
    )  # fmt: skip
    return given._replace(**changed)


COUNTS = np.zeros((3, 2), np.int16)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"current": COUNTS[:0]}, r"current: has shape \(0, 2\); \(jobs, nodes\) of at least one each"),
        ({"current": COUNTS[:, :0]}, r"current: has shape \(3, 0\)"),
        ({"current": COUNTS - 1}, "current: has an entry of -1; 0 to 32767 is accepted"),
        ({"speedup": np.full((3, 3, 9), np.nan)}, "speedup: has entries that are negative or not finite"),
        ({"speedup": np.ones((2, 3, 9))}, r"speedup: has shape \(2, 3, 9\), not \(3, nodes \+ 1, GPUs \+ 1\)"),
        ({"stay": np.array([1, np.inf, 1])}, "stay: has entries that are negative or not finite"),
        ({"stay": np.ones(2)}, r"stay: has shape \(2,\), not \(3,\) as current and unit say"),
        ({"room": np.full(3, 4)}, r"room: has shape \(3,\), not \(2,\)"),
        ({"room": np.full(2, 40_000)}, "room: has an entry of 40000; 0 to 32767 is accepted"),
        ({"room": np.full(2, 4.0)}, "room: is of float64; whole numbers are accepted"),
        ({"least": -np.ones((3, 1), int)}, "least: has an entry of -1; 0 or more is accepted"),
        ({"most": np.ones((3, 2), int)}, r"most: has shape \(3, 2\), not \(3, 1\)"),
        ({"unit": np.ones(3, int)}, r"unit: has shape \(3,\), not \(jobs, types\)"),
        ({"type_of": np.array([0, 1])}, "type_of: has an entry of 1; 0 to 0 is accepted"),
        ({"host": np.array([1, 0])}, r"host: is \[1, 0\]; numbers that ascend from 0 are accepted"),
        ({"host": np.array([0, 2])}, "host: has an entry of 2; 0 to 1 is accepted"),
        ({"pinned": np.zeros(1, bool)}, r"pinned: has shape \(1,\), not \(3,\)"),
        ({"required": np.zeros(4, bool)}, r"required: has shape \(4,\), not \(3,\)"),
        ({"required": np.zeros(3, int)}, "required: is of int64, not of bool"),
        ({"pinned": np.array([False, True, False])}, "pinned: has a job that comes after one that is not"),
        (
            {"current": COUNTS + 3, "pinned": np.array([True, True, False])},
            "current: pinned jobs hold 6 GPUs of node 0; up to 4 is accepted",
        ),
        ({"most_nodes": 0}, "most_nodes: is 0; 1 or more is accepted"),
        ({"p": 0.0}, r"p: is 0\.0; a finite number other than 0 is accepted"),
    ],
)  # fmt: skip
def test_a_search_among_what_makes_no_sense_is_refused_in_one_sentence(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        search(three_jobs(**changed), COUNTS[None], 8, 5, 0)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"first": COUNTS[None][:0]},
            r"first: has shape \(0, 3, 2\); at least one matrix of \(3, 2\) is accepted",
        ),
        ({"first": COUNTS[None, :2]}, r"first: has shape \(1, 2, 2\)"),
        ({"first": COUNTS[None] - 1}, "first: has an entry of -1"),
        ({"size": 0}, "size: is 0; 1 or more is accepted"),
        ({"generations": -1}, "generations: is -1; 0 or more is accepted"),
        ({"seed": -1}, r"seed: is -1; 0 to 2\*\*64 - 1 is accepted"),
        ({"seed": 2**64}, "seed: is 18446744073709551616"),
    ],
)
def test_a_search_that_cannot_be_run_is_refused_in_one_sentence(changed: dict[str, Any], told: str) -> None:
    given = {"first": COUNTS[None], "size": 8, "generations": 5, "seed": 0, **changed}
    with pytest.raises(ValueError, match=told):
        search(three_jobs(), **given)


def test_the_smallest_search_finds_what_fits_beside_pinned_jobs() -> None:
    current = COUNTS.copy()
    current[0] = 4, 1
    problem = three_jobs(current=current, pinned=np.array([True, False, False]))
    for size, generations in ((1, 0), (1, 1), (20, 20)):
        found = search(problem, np.full((1, 3, 2), 9, np.int16), size, generations, 2**64 - 1)
        assert (found.rows[0] == current[0]).all()
        assert (found.front >= 0).all()
        assert (found.front.sum(axis=1) <= 4).all()


def test_the_same_seed_gives_the_same_plan() -> None:
    jobs = [job(str(i), model=EITHER, largest_gpus={"t4": 4}) for i in range(6)]
    assert plan(jobs, seed=3) == plan(jobs, seed=3)


def test_jobs_and_nodes_may_come_and_go_between_rounds() -> None:
    policy = pollux()
    jobs = [job(str(i), model=EITHER, largest_gpus={"t4": 4}) for i in range(6)]
    jobs = after(jobs, policy.plan(Round(0.0, 60.0, MIXED, jobs)))
    larger = cluster("1x t4:4, 2x a100:8")
    newcomers = [*jobs[2:], job("new", model=EITHER, largest_gpus={})]
    found = policy.plan(Round(60.0, 60.0, larger, newcomers))
    assert_within(found, larger)
    assert found.placements.keys() == {"2", "3", "4", "5", "new"}
    assert not policy.plan(Round(120.0, 60.0, cluster("1x t4:4"), [])).placements
    assert not policy.plan(Round(180.0, 60.0, Cluster(()), newcomers)).placements


@dataclass(frozen=True)
class Promise:
    """A job beside `others` adaptive ones that could use every GPU, and the (GPU type, GPUs) it may be given."""

    says: str
    asks: dict[str, Any]
    may: set[tuple[str, int]]
    where: str = "2x t4:4, 1x a100:8"
    others: int = 0
    waits: bool = False  # it may get nothing


ADAPTIVE_T4 = {("t4", n) for n in range(1, 9)}
PROMISES = (
    Promise("a rigid job gets its count", {"adaptivity": "rigid", "gpus": 3}, {("t4", 3), ("a100", 3)}),
    Promise(
        "a rigid job gets its count beside others", {"adaptivity": "rigid", "gpus": 6},
        {("t4", 6), ("a100", 6)}, others=4, waits=True,
    ),
    Promise("a rigid job as large as a GPU type", {"adaptivity": "rigid", "gpus": 8}, {("t4", 8), ("a100", 8)}),
    Promise("a rigid job larger than any GPU type waits", {"adaptivity": "rigid", "gpus": 9}, set(), waits=True),
    Promise(
        "a rigid job over more than sixteen nodes", {"adaptivity": "rigid", "gpus": 80}, {("t4", 80)}, "20x t4:4"
    ),
    Promise(
        "a strong-scaling job of one size", {"adaptivity": "strong-scaling", "min_gpus": 4, "max_gpus": 4},
        {("t4", 4), ("a100", 4)}, others=3, waits=True,
    ),
    Promise("never less than its minimum", {"min_gpus": 5}, {(t, n) for t in ("t4", "a100") for n in range(5, 9)}),
    Promise("nor more than its maximum", {"max_gpus": 2}, {(t, n) for t in ("t4", "a100") for n in (1, 2)}),
    Promise("only GPU types it may use", {"gpu_types": ["t4"]}, ADAPTIVE_T4, others=2, waits=True),
    Promise(
        "whole replicas", {"gpus_per_replica": 2}, {(t, n) for t in ("t4", "a100") for n in (2, 4, 6, 8)},
        others=2, waits=True,
    ),
    Promise("replicas of three GPUs", {"gpus_per_replica": 3}, {(t, n) for t in ("t4", "a100") for n in (3, 6)}),
    Promise(
        "replicas of another size on each GPU type", {"gpus_per_replica": {"t4": 4, "a100": 1}},
        {("t4", 4), ("t4", 8), *(("a100", n) for n in range(1, 9))},
    ),
    Promise("a replica larger than a node", {"gpus_per_replica": 8}, {("t4", 8), ("a100", 8)}),
    Promise(
        "a rigid pipeline", {"adaptivity": "rigid", "gpus": 6, "gpus_per_replica": 3}, {("t4", 6), ("a100", 6)}
    ),
    Promise(
        "what is reserved for it, from the first round", {"reservation": {"gpu_type": "a100", "gpus": 5}},
        {("a100", 5)}, others=6,
    ),
)  # fmt: skip


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.says)
def test_a_job_gets_what_it_asks_for_or_nothing(promise: Promise) -> None:
    where = cluster(promise.where)
    mine = job("mine", **{"model": EITHER, "largest_gpus": {"t4": 64}, **promise.asks})
    others = [job(str(i), model=EITHER, largest_gpus={"t4": 64}) for i in range(promise.others)]
    for found in rounds(pollux(), [mine, *others], where, 3):
        assert_within(found, where)
        placement = found.placements.get("mine")
        if placement is None:
            assert promise.waits
        else:
            assert (placement.gpu_type, placement.gpus) in promise.may


def test_a_replica_that_fits_a_node_is_not_spread_over_two() -> None:
    pipeline = job("pipeline", model=EITHER, gpus_per_replica=3, gpu_types=["t4"], largest_gpus={"t4": 64})
    assert plan([pipeline])["pipeline"].by_node == {"t4-000": 3, "t4-001": 3}


def test_a_placed_job_that_may_not_be_stopped_keeps_its_gpus() -> None:
    # Scattered as no plan of ours would be, and worse than what is free.
    stays = job("stays", preemptible=False, model=EITHER, placement=on("t4", n0=1, n1=2), largest_gpus={"t4": 3})
    others = [job(str(i), model=EITHER, largest_gpus={"t4": 64}, min_gpus=1 + i) for i in range(4)]
    for found in rounds(pollux(), [*others, stays], MIXED, 4):
        assert found.placements["stays"] == stays.placement
        assert_within(found, MIXED)


def test_a_reservation_that_cannot_be_met_is_said_to() -> None:
    stays = job("stays", preemptible=False, model=EITHER, placement=on("a100", n0=4), largest_gpus={"a100": 4})
    reserved = job("reserved", model=EITHER, reservation={"gpu_type": "a100", "gpus": 5})
    found = pollux().plan(Round(0.0, 60.0, MIXED, [stays, reserved]))
    assert found.placements == {"stays": stays.placement}
    assert found.notes == [Note("job reserved: reservation of 5 a100 cannot be met; it waits", "reserved")]


KINDS = st.one_of(
    st.builds(dict),
    st.builds(lambda n: {"adaptivity": "rigid", "gpus": n}, st.integers(1, 9)),
    st.builds(lambda a, b: {"min_gpus": min(a, b), "max_gpus": max(a, b)}, st.integers(1, 9), st.integers(1, 9)),
    st.builds(lambda p: {"gpus_per_replica": p}, st.integers(1, 6)),
    st.builds(
        lambda p, n: {"adaptivity": "rigid", "gpus": p * n, "gpus_per_replica": p}, *[st.integers(1, 4)] * 2
    ),
    st.just({"gpu_types": ["a100"]}),
    st.just({"preemptible": False}),
)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(KINDS, st.integers(0, 8), st.booleans(), st.booleans()), min_size=1, max_size=10),
    st.sampled_from(["2x t4:4, 1x a100:8", "1x t4:2, 1x t4:6, 2x a100:8", "3x t4:1"]),
)
def test_a_plan_can_always_be_carried_out(rows: list[tuple[dict[str, Any], int, bool, bool]], nodes: str) -> None:
    where = cluster(nodes)
    jobs = [
        job(str(i), model=model({"t4": 50.0} if only_t4 else {"t4": 50.0, "a100": 150.0}) if knows else None,
            known=knows, largest_gpus={"t4": most}, **asks)
        for i, (asks, most, only_t4, knows) in enumerate(rows)
    ]  # fmt: skip
    policy = pollux(population=12, generations=8)
    before: dict[str, Placement] = {}
    for _ in range(2):
        found = policy.plan(Round(0.0, 60.0, where, jobs))
        assert_within(found, where)
        for view in jobs:
            placement = found.placements.get(view.id)
            if not view.spec.preemptible and view.id in before:
                assert placement == before[view.id]
            if placement is not None:
                assert_asked_for(view, placement, where)
        assert_one_spanning_job_a_node(policy)
        before = dict(found.placements)
        jobs = [replace(view, age_s=view.age_s + 60.0) for view in after(jobs, found)]


def assert_asked_for(view: JobView, placement: Placement, where: Cluster) -> None:
    resources, each = view.spec.resources, view.spec.gpus_per_replica(placement.gpu_type)
    assert each is not None
    assert placement.gpus % each == 0
    if resources.gpus is not None:
        assert placement.gpus == resources.gpus
    least = -(-resources.min_gpus // each) * each
    assert resources.min_gpus <= placement.gpus <= resources.max_gpus
    ever = max(max(view.largest_gpus.values(), default=0), placement.gpus if view.placement == placement else 0)
    assert placement.gpus <= max(2 * ever, least, resources.gpus or 0, each)
    if each <= max(node.gpus for node in where.of_type(placement.gpu_type)):
        assert all(share.gpus % each == 0 for share in placement.shares)


def assert_one_spanning_job_a_node(policy: Any) -> None:
    """Check nodes of `VIRTUAL_GPUS` GPUs, as which the policy sees larger ones."""
    rows = np.array([row for _, row in policy._held.values()]).reshape(-1, len(policy._names))
    assert rows.sum(axis=0).max(initial=0) <= VIRTUAL_GPUS
    spanning = rows[(rows > 0).sum(axis=1) > 1]
    assert (spanning > 0).sum(axis=0).max(initial=0) <= 1
