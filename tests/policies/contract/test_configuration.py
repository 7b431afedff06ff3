"""Which configurations a cluster offers, and which of them fit on it together."""

import numpy as np
import pytest
from coadapt.policies.contract.configuration import Configuration, ConfigurationSet

from tests.support.rounds import cluster, on, spec


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("1x a:2, 1x b:4", ["1xa", "2xa", "1xb", "2xb", "4xb"]),  # the paper's running example
        ("3x b:4", ["1xb", "2xb", "4xb", "8xb (2 nodes)", "12xb (3 nodes)"]),
        ("2x c:6", ["1xc", "2xc", "4xc", "6xc", "12xc (2 nodes)"]),  # a node of 6 is one of 4 and one of 2
        ("2x d:4, 2x d:8", ["1xd", "2xd", "4xd", "8xd", "8xd (2 nodes)", "16xd (2 nodes)"]),
        ("1x e:1", ["1xe"]),
    ],
)
def test_powers_of_two_within_a_node_and_whole_nodes_beyond(nodes: str, names: list[str]) -> None:
    found = ConfigurationSet(cluster(nodes))
    assert list(found.names) == names
    assert [int(g) for g in found.arrays.gpus] == [c.gpus for c in found.items]


def test_the_order_does_not_depend_on_the_order_of_nodes() -> None:
    assert (
        ConfigurationSet(cluster("2x t4:4, 1x a100:8")).items
        == ConfigurationSet(cluster("1x a100:8, 2x t4:4")).items
    )


def test_a_placement_is_recognised_only_in_a_shape_that_is_offered() -> None:
    found = ConfigurationSet(cluster("3x b:4"))
    assert found.of(on("b", n0=2)) == Configuration(1, 2, "b")
    assert found.of(on("b", n0=4, n2=4)) == Configuration(2, 8, "b", 4)
    assert found.of(on("b", n0=2, n1=2)) is None  # split over nodes
    assert found.of(on("b", n0=3)) is None
    assert found.of(on("b", n7=2)) is None  # that node is gone
    assert found.index(None) == -1


def test_pipeline_replicas_stay_whole() -> None:
    where = cluster("2x a:8, 2x rtx:8, 4x t:4")
    found = ConfigurationSet.for_jobs(where, [spec(gpus_per_replica={"a": 3, "rtx": 8, "t": 6}, max_gpus=24)])
    special = {str(c): c.shape for c, s in zip(found.items, found.special, strict=True) if s}
    assert special["3xa"] == (3,)
    assert special["6xa"] == (6,)
    assert special["12xa (2 nodes)"] == (6, 6)
    assert special["6xt (2 nodes)"] == (3, 3)
    assert Configuration(2, 16, "rtx", 8).holds_replicas(8)
    assert not Configuration(2, 12, "a", 8).holds_replicas(8)
    assert not Configuration(3, 24, "a", 8).holds_replicas(3), (
        "24 = 8 replicas of 3, but nodes of 8 would split some"
    )


def test_a_rigid_count_that_is_no_power_of_two_holds_exactly_that_count() -> None:
    where = cluster("1x b:4")
    found = ConfigurationSet.for_jobs(where, [spec(adaptivity="rigid", gpus=3)])
    column = found.items.index(Configuration(1, 3, "b"))
    assert found.special[column]
    assert found.limits().usage[0, column] == 4  # the fourth GPU is promised to nobody


def test_counts_that_no_nodes_can_hold_are_left_out() -> None:
    found = ConfigurationSet.for_jobs(cluster("1x b:4"), [spec(adaptivity="rigid", gpus=64)])
    assert not found.special.any()


def test_uniform_nodes_need_one_limit_per_type() -> None:
    limits = ConfigurationSet(cluster("6x t4:4, 3x rtx:8, 2x a100:8")).limits()
    assert limits.gpu_types == ("a100", "rtx", "t4")
    np.testing.assert_array_equal(limits.capacity, [16, 24, 24])


def test_virtual_nodes_limit_large_blocks() -> None:
    found = ConfigurationSet(cluster("3x c:6"))
    limits = found.limits()
    fours = np.zeros(len(found))
    fours[found.items.index(Configuration(1, 4, "c"))] = 4  # 16 of 18 GPUs, but there are three blocks of 4
    assert (limits.usage @ fours > limits.capacity).any()
    assert (limits.usage @ (fours * 3 / 4) <= limits.capacity).all()


def test_jobs_that_may_not_move_leave_smaller_blocks() -> None:
    found = ConfigurationSet(cluster("2x b:4"))
    limits = found.limits([on("b", n0=1), on("b", n1=1)])
    four = found.items.index(Configuration(1, 4, "b"))
    assert limits.capacity[0] == 6
    assert (limits.usage[:, four] > limits.capacity).any()


def test_a_job_that_may_not_move_keeps_the_rest_of_its_whole_node() -> None:
    """5 GPUs of a node of 6 are given as a whole node: its sixth GPU is free, but promised to nobody."""
    found = ConfigurationSet(cluster("2x b:6"), [("b", 5, 1)])
    assert found.of(on("b", n0=5)) == Configuration(1, 5, "b", 6)
    assert found.limits([on("b", n0=5)]).capacity[0] == 6


def test_limits_of_an_empty_cluster_are_worked_out_once() -> None:
    found = ConfigurationSet(cluster("2x a:4, 1x b:6"))
    first = found.limits()
    assert found.limits([on("a", n0=2)]).capacity.tolist() != first.capacity.tolist()
    assert found.limits(()) is first


def test_sets_are_alike_as_long_as_nodes_that_come_and_go_leave_the_same_configurations() -> None:
    found = ConfigurationSet(cluster("6x b:4, 1x e:1"), most_gpus=16)
    assert ConfigurationSet(cluster("5x b:4, 1x e:1"), most_gpus=16).is_like(found)
    assert not ConfigurationSet(cluster("3x b:4, 1x e:1"), most_gpus=16).is_like(found)  # 16xb is gone
    assert not ConfigurationSet(cluster("6x b:4"), most_gpus=16).is_like(found)
    assert not ConfigurationSet(cluster("6x b:4, 1x e:1"), {("b", 3, 1)}, 16).is_like(found)


def test_a_count_that_becomes_special_makes_another_set_of_the_same_configurations() -> None:
    """Only jobs that ask for it may have what is special."""
    regular = ConfigurationSet(cluster("2x c:6"))
    special = ConfigurationSet(cluster("2x c:6"), {("c", 12, 1)}, most_gpus=6)
    assert regular.items == special.items
    assert not special.is_like(regular)


def test_columns_are_found_in_a_set_of_another_cluster() -> None:
    before = ConfigurationSet(cluster("2x a:4, 1x b:8"))  # 1 2 4 8 a, 1 2 4 8 b
    now = ConfigurationSet(cluster("3x a:4, 1x c:2"))  # 1 2 4 8 12 a, 1 2 c
    assert now.columns_in(before).tolist() == [0, 1, 2, 3, -1, -1, -1]
    # Nodes of another size: their goodput is another, whatever they are called.
    assert ConfigurationSet(cluster("2x a:8, 1x b:8")).columns_in(before).tolist() == [
        -1,
        -1,
        -1,
        -1,
        -1,
        4,
        5,
        6,
        7,
    ]
