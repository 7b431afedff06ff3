"""Jobs that were chosen for a GPU type find room on few nodes, and those that stay keep their GPUs."""

from __future__ import annotations

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.contract.round import JobView
from coadapt.policies.placing.best_fit import place_on_types

from tests.support.rounds import cluster, job, on, rigid


def placed(where: str, *jobs: JobView) -> dict[str, Placement]:
    """Place all jobs on t4, each on as many GPUs as it asks for."""
    return place_on_types(cluster(where), {"t4": [(job, job.spec.resources.gpus or 1) for job in jobs]})


def test_who_stays_keeps_its_gpus_and_others_go_to_the_fullest_node_with_room() -> None:
    stays = rigid("stays", 3, placement=on("t4", n1=3))
    found = placed("3x t4:4", rigid("new", 1), stays)
    assert found["stays"] is stays.placement
    assert found["new"].by_node == {"t4-001": 1}


def test_who_has_another_number_or_type_of_gpus_or_lost_its_node_is_placed_anew() -> None:
    jobs = [
        rigid("grows", 4, placement=on("t4", n0=2)),
        rigid("other", 1, placement=on("v100", n0=1)),
        rigid("lost", 1, placement=on("t4", n9=1)),
    ]
    found = placed("1x t4:4, 1x t4:2", *jobs)
    assert {id: placement.gpus for id, placement in found.items()} == {"grows": 4, "other": 1, "lost": 1}


def test_where_small_jobs_leave_a_large_one_no_room_all_are_placed_anew() -> None:
    small = [rigid(f"s{n}", 1, placement=on("t4", **{f"n{n}": 1})) for n in (0, 1)]
    found = placed("2x t4:4", *small, rigid("large", 4))
    assert sorted(found) == ["large", "s0", "s1"]
    assert found["s0"].by_node == found["s1"].by_node


def test_a_job_that_may_not_be_moved_stays_though_a_large_one_waits_for_that() -> None:
    small = [rigid(f"s{n}", 1, placement=on("t4", **{f"n{n}": 1}), preemptible=False) for n in (0, 1)]
    found = placed("2x t4:4", *small, rigid("large", 4))
    assert found == {job.id: job.placement for job in small}


def test_moving_is_not_worth_it_where_nobody_more_finds_room() -> None:
    small = rigid("small", 1, placement=on("t4", n1=1))
    assert placed("2x t4:4", small, rigid("huge", 8)) == {"small": small.placement}


def test_a_job_whose_node_has_fewer_cpus_than_before_is_placed_anew() -> None:
    where = Cluster((Node("n0", "t4", 4, cpus=4.0), Node("n1", "t4", 4, cpus=16.0)))
    job = rigid("job", 2, placement=Placement("t4", (NodeShare("n0", 2, cpus=8.0),)), cpus_per_gpu=4)
    found = place_on_types(where, {"t4": [(job, 2)]})
    assert found["job"].by_node == {"n1": 2}


def test_each_type_is_filled_with_its_own_jobs() -> None:
    a, b = rigid("a", 2), rigid("b", 2)
    found = place_on_types(cluster("1x t4:2, 1x v100:2"), {"t4": [(a, 2)], "v100": [(b, 2)]})
    assert {id: placement.gpu_type for id, placement in found.items()} == {"a": "t4", "b": "v100"}


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("1x t4:4", {"a": {"t4-000": 2}, "b": {"t4-000": 2}}),
        ("2x t4:2", {"a": {"t4-000": 2}, "b": {"t4-001": 2}}),
        ("1x t4:2", {"a": {"t4-000": 2}}),
    ],
)
def test_of_two_jobs_on_a_node_that_became_too_small_for_both_one_stays_and_the_other_finds_room(
    nodes: str, expected: dict[str, dict[str, int]]
) -> None:
    jobs = [(job(name, placement=on("t4", n0=2)), 2) for name in "ab"]
    found = place_on_types(cluster(nodes), {"t4": jobs})
    assert {name: placement.by_node for name, placement in found.items()} == expected
