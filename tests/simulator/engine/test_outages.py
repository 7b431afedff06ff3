"""Nodes fail and come back as often as they were said to, and alike for the same seed."""

from itertools import islice

import pytest
from coadapt.simulator.engine.outages import Change, Failures
from coadapt.simulator.traces.cluster_file import cluster_of


def of_node(changes: list[Change], node_id: str) -> list[Change]:
    return [change for change in changes if change.node_id == node_id]


def test_a_node_fails_and_is_repaired_by_turns() -> None:
    changes = list(islice(Failures(1000.0, 60.0, 3).changes(cluster_of("3x t4:4")), 600))
    assert [change.time_s for change in changes] == sorted(change.time_s for change in changes)
    for node in ("t4-0000", "t4-0001", "t4-0002"):
        mine = of_node(changes, node)
        assert [change.fails for change in mine] == [i % 2 == 0 for i in range(len(mine))]
        for down, up in zip(mine[::2], mine[1::2], strict=False):
            assert up.time_s - down.time_s == pytest.approx(60.0)
        up_s = [b.time_s - a.time_s for a, b in zip(mine[1::2], mine[2::2], strict=False)]
        assert sum(up_s) / len(up_s) == pytest.approx(1000.0, rel=0.35)


def test_a_seed_decides_a_nodes_times_whatever_other_nodes_there_are() -> None:
    few = list(islice(Failures(1000.0, 60.0, 3).changes(cluster_of("1x t4:4")), 10))
    many = list(islice(Failures(1000.0, 60.0, 3).changes(cluster_of("5x t4:4")), 100))
    assert of_node(many, "t4-0000")[:10] == few[: len(of_node(many, "t4-0000")[:10])]
    other = list(islice(Failures(1000.0, 60.0, 4).changes(cluster_of("1x t4:4")), 10))
    assert other != few


@pytest.mark.parametrize("values", [(0.0, 60.0), (-1.0, 60.0), (float("nan"), 60.0), (10.0, -1.0)])
def test_impossible_times_are_refused(values: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Failures(*values)
