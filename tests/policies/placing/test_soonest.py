"""The place for a job is the one that is expected to be free soonest."""

from __future__ import annotations

import math

import pytest
from coadapt.core.placement import Placement
from coadapt.policies.placing.soonest import soonest_place

from tests.support.rounds import cluster, on

HELD: dict[str, Placement] = {
    "short": on("t4", n0=4), "long": on("t4", n1=3), "both": on("t4", n2=2, n3=2),
}  # fmt: skip
LEFT_S = {"short": 600.0, "long": 90.0, "both": 300.0}


@pytest.mark.parametrize(
    ("gpus", "nodes", "after_s"),
    [
        (1, {"t4-001": 1}, 0.0),  # one is idle there
        (2, {"t4-002": 2}, 0.0),
        (4, {"t4-001": 4}, 90.0),
        (8, {"t4-001": 4, "t4-002": 4}, 300.0),
        (10, {"t4-001": 4, "t4-002": 4, "t4-003": 2}, 300.0),
        (16, {"t4-000": 4, "t4-001": 4, "t4-002": 4, "t4-003": 4}, 600.0),
    ],
)
def test_whole_nodes_come_first_and_the_last_to_be_free_decides(
    gpus: int, nodes: dict[str, int], after_s: float
) -> None:
    found = soonest_place(gpus, ("t4",), cluster("4x t4:4"), HELD, LEFT_S)
    assert found is not None
    assert (found.place.by_node, found.after_s) == (nodes, after_s)


def test_of_two_gpu_types_the_sooner_is_taken_and_a_cluster_too_small_has_no_place() -> None:
    where = cluster("1x a:4, 1x b:4")
    held = {"a-job": on("a", n0=4), "b-job": on("b", n0=4)}
    found = soonest_place(4, ("a", "b"), where, held, {"a-job": math.inf, "b-job": 5.0})
    assert found is not None
    assert (found.place.gpu_type, found.after_s) == ("b", 5.0)
    assert soonest_place(5, ("a", "b"), where, held, {"a-job": 1.0, "b-job": 1.0}) is None
