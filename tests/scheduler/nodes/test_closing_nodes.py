"""Orders, maintenance windows and notices close nodes for just as long as they count, also over restarts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.errors import NodeOrderError
from coadapt.core.machine_states import MachineState
from coadapt.scheduler.nodes.closing_nodes import FACT, ClosingNodes
from coadapt.scheduler.nodes.node_orders import NodeOrders
from coadapt.scheduler.nodes.node_view import NodesSnapshot
from coadapt.scheduler.nodes.powered_nodes import with_power
from coadapt.scheduler.power.machine import Machine

from tests.support.api import service_of
from tests.support.cycles import RUNS, World, nodes_of


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "2x t4:4, 1x a100:4")


def open_now(world: World) -> list[str]:
    return [node.id for node in world.closing.snapshot.cluster.nodes]


def reopened(world: World) -> ClosingNodes:
    """Return what the next service makes of the same store."""
    return ClosingNodes(world.nodes, world.store, world.clock)


def test_an_order_counts_until_it_is_taken_back_and_the_next_service_knows_it(world: World) -> None:
    whole = world.closing.snapshot
    assert whole is world.nodes.snapshot, "where nothing is closed, nothing is made anew"
    new, told = world.closing.cordon("t4-000", "ann", "a new disk")
    assert (new, told) == (True, "t4-000 gets no new work: cordoned by ann: a new disk")
    assert open_now(world) == ["a100-000", "t4-001"]
    found = reopened(world).snapshot
    assert found.closed["t4-000"].told() == "cordoned by ann: a new disk"
    assert (found.draining, [node.id for node in found.closed_nodes]) == (frozenset(), ["t4-000"])
    assert world.closing.snapshot.cluster is world.closing.snapshot.cluster, "policies keep things by it"
    assert world.closing.uncordon("t4-000", "bob") == (True, "t4-000 takes work again")
    assert world.closing.uncordon("t4-000", "bob") == (False, "t4-000 takes work already")
    assert len(open_now(world)) == 3
    assert [event.who for event in world.store.cluster_events()] == ["ann", "bob"]


def test_a_second_order_says_what_is_so_already(world: World) -> None:
    assert world.closing.drain("t4-000", 600.0, "ann")[0]
    again = world.closing.drain("t4-000", 600.0, "bob")
    assert again[0] is False
    assert again[1].startswith("t4-000 is drained by ann, until ")
    assert again[1].endswith(" already")
    assert world.closing.cordon("t4-000", "bob")[0] is False, "a drained node gets no new work either"
    sooner = world.closing.drain("t4-000", 60.0, "bob")
    assert sooner[0]
    assert "; before, it was drained by ann, until " in sooner[1]
    assert world.closing.snapshot.closed["t4-000"].deadline_s == world.clock.now_s + 60.0


def test_a_node_is_known_by_its_machine_and_by_the_beginning_of_its_id(world: World) -> None:
    assert world.closing.machine_of("a100-000") == "a100-000"
    assert world.closing.machine_of("a100-0") == "a100-000"
    for name in ("t4-00", "nobody", ""):
        with pytest.raises(KeyError, match="`coadapt node list` shows all"):
            world.closing.machine_of(name)


def test_a_window_drains_nodes_before_it_keeps_them_free_and_gives_them_back(world: World) -> None:
    wall_s = world.clock.wall_s()
    world.closing.add_window(wall_s + 1000, wall_s + 2000, ["a100-000"], "t4", 300.0, "ann", "rewiring")
    assert len(open_now(world)) == 3
    world.clock.forward(701)
    assert world.closing.tick(dict)
    assert open_now(world) == []
    closed = reopened(world).snapshot.closed["t4-001"]
    assert closed.told().startswith("drained for maintenance window w1, set by ann, until ")
    assert closed.deadline_s == pytest.approx(world.clock.now_s + 299)
    world.clock.forward(400)
    assert world.closing.tick(dict)
    late = world.closing.snapshot.closed["a100-000"]
    assert (late.leaves, late.deadline_s) == (True, None)
    with pytest.raises(
        NodeOrderError, match="a100-000 was not cordoned by an operator, but it stays closed: in main"
    ):
        world.closing.uncordon("a100-000")
    world.clock.forward(900)
    assert world.closing.tick(dict)
    assert len(open_now(world)) == 3
    assert world.closing.orders.windows == ()
    world.check(["told", "maintenance", "window", "w1", "is", "over"], "")


def test_what_is_closed_and_not_there_is_told_all_the_same(world: World) -> None:
    wall_s = world.clock.wall_s()
    world.closing.cordon("t4-000", "ann")
    world.closing.add_window(wall_s + 5000, wall_s + 9000, ["t4-001"])
    world.closing.add_window(wall_s + 200_000, wall_s + 300_000, ["t4-001"])
    (window,) = world.closing.notes()
    assert window.startswith("maintenance window w1 for t4-001 is from ")
    world.nodes.snapshot = nodes_of(Cluster((world.all.by_id["t4-001"],)))
    assert world.closing.notes() == ["t4-000 is away, and stays cordoned by ann", window]


def test_windows_go_by_the_clock_on_the_wall_also_when_somebody_sets_it(world: World) -> None:
    wall_s = world.clock.wall_s()
    world.closing.add_window(wall_s + 1000, wall_s + 2000, ["t4-000"], lead_s=0.0)
    world.clock.set_s = 1500.0
    world.closing.tick(dict)
    assert "t4-000" not in open_now(world)
    world.closing.remove_window("w1", "ann")
    assert "t4-000" in open_now(world)
    with pytest.raises(KeyError, match="no maintenance window w1"):
        world.closing.remove_window("w1")


BAD_WINDOWS: dict[str, tuple[dict[str, Any], str]] = {
    "no nodes": ({"begins_s": 10.0, "ends_s": 20.0}, "nodes: none is named; name machines, or a GPU type"),
    "over": ({"begins_s": -20.0, "ends_s": -10.0, "machines": ["t4-000"]}, "to: .* is in the past; it must be"),
    "backwards": ({"begins_s": 20.0, "ends_s": 10.0, "machines": ["t4-000"]}, "to: .* is not after .*, when"),
    "no such type": ({"begins_s": 10.0, "ends_s": 20.0, "gpu_type": "h100"}, "gpu_type: no node has h100; known:"),
    "negative lead": (
        {"begins_s": 10.0, "ends_s": 20.0, "machines": ["t4-000"], "lead_s": -1.0},
        "lead: -1 s is below 0",
    ),
}


@pytest.mark.parametrize(("window", "sentence"), BAD_WINDOWS.values(), ids=BAD_WINDOWS)
def test_a_window_that_cannot_be_is_refused(world: World, window: dict[str, Any], sentence: str) -> None:
    wall_s = world.clock.wall_s()
    moments = {name: wall_s + window[name] for name in ("begins_s", "ends_s")}
    with pytest.raises(NodeOrderError, match=sentence):
        world.closing.add_window(**window | moments)
    assert world.closing.orders == NodeOrders(), "nothing half-done is left"


def test_a_notice_is_of_one_life_of_a_node_and_a_cordon_of_its_machine(world: World) -> None:
    first, second = (Node(id, "t4", 4, machine="m1") for id in ("first-id", "second-id"))
    world.nodes.snapshot = nodes_of(Cluster((first,)))
    assert world.closing.take_notice("first-id", "spot notice of aws", 120.0)
    assert not world.closing.take_notice("first-id", "spot notice of aws", 119.5), "it is told once"
    assert not world.closing.take_notice("unknown", "spot notice of aws", 120.0)
    assert open_now(world) == []
    world.nodes.snapshot = nodes_of(Cluster((second,)))
    world.closing.tick(dict)
    assert open_now(world) == ["second-id"]
    assert world.closing.snapshot.closed["first-id"].leaves, "jobs that were there are still to be told"
    world.closing.cordon("m1")
    world.nodes.snapshot = nodes_of(Cluster((first,)))
    world.closing.tick(dict)
    assert open_now(world) == []
    world.nodes.snapshot = nodes_of(Cluster((second,)))
    world.clock.forward(601)
    for _ in range(2):
        world.closing.tick(dict)
        world.clock.forward(601)
    assert world.closing.orders.notices == {}
    assert open_now(world) == [], "the cordon stays"


def test_what_ray_drains_is_closed_until_the_moment_that_ray_tells(world: World) -> None:
    until_s = world.clock.wall_s() + 90.0
    world.nodes.snapshot = _drained_by_ray(world.nodes.snapshot, {"t4-000": until_s, "t4-001": None})
    world.closing.tick(dict)
    closed = world.closing.snapshot.closed
    assert (closed["t4-000"].deadline_s, closed["t4-001"].deadline_s) == (world.clock.now_s + 90.0, None)
    assert world.closing.snapshot.draining == {"t4-000", "t4-001"}
    world.check(["told", "t4-001", "is", "drained", "by", "Ray"], "")


def _drained_by_ray(nodes: NodesSnapshot, until_s: dict[str, float | None]) -> NodesSnapshot:
    return replace(nodes, drained_by_ray=until_s)


def test_the_most_urgent_reason_counts_and_all_are_told(world: World) -> None:
    world.closing.cordon("t4-000", "ann")
    world.closing.take_notice("t4-000", "spot notice of aws", 120.0)
    found = world.closing.snapshot.closed["t4-000"]
    assert (found.leaves, found.deadline_s) == (True, world.clock.now_s + 120.0)
    assert "spot notice of aws, it goes at " in found.told()
    assert found.told().endswith("; cordoned by ann")
    told = world.closing.uncordon("t4-000")
    assert told[1].startswith("t4-000 is not cordoned any more, but it stays closed: spot notice of aws")


def test_a_machine_that_sleeps_and_is_cordoned_is_not_waited_for(world: World) -> None:
    node = world.all.by_id["t4-000"]
    machines = {"t4-000": Machine("t4-000", node, MachineState.ASLEEP)}
    world.nodes.snapshot = nodes_of(Cluster(tuple(one for one in world.all.nodes if one is not node)))
    closing = ClosingNodes(world.nodes, world.store, world.clock, lambda: machines)
    assert len(with_power(closing.snapshot, machines, 300.0).asleep) == 1
    closing.cordon("t4-000")
    assert with_power(closing.snapshot, machines, 300.0).asleep == ()


def test_orders_that_cannot_be_read_are_told_and_keep_no_service_from_starting(world: World) -> None:
    world.store.write_fact(FACT, "{")
    assert reopened(world).orders == NodeOrders()
    world.check(["told", "orders", "for", "nodes", "cannot", "be", "read"], "")


def test_an_operator_sees_when_nothing_is_left_on_a_drained_node(tmp_path: Path) -> None:
    world = World(tmp_path, "2x t4:4")
    world.play(f"""
        {RUNS}
        order drain t4-000
        step
    """)
    texts = [str(event.data["text"]) for event in world.store.cluster_events()]
    assert not any("is empty" in text for text in texts)
    world.play("""
        go
        left a
        go
        ? told t4-000 is empty: nothing runs there any more
    """)


def test_a_service_that_starts_again_tells_nothing_of_closed_nodes_twice(world: World) -> None:
    def tick(closing: ClosingNodes) -> list[str]:
        closing.tick(dict)
        closing.tick(dict)
        return [str(event.data["text"]) for event in world.store.cluster_events()]

    world.closing.drain("t4-001")
    begins_s = world.clock.wall_s()
    world.closing.add_window(begins_s + 60.0, begins_s + 3600.0, ["t4-000"])
    told = tick(world.closing)
    assert sum("is empty" in text for text in told) == 2
    assert sum("drained for maintenance window" in text for text in told) == 1
    again = reopened(world)
    assert tick(again) == told
    again.uncordon("t4-001")
    again.drain("t4-001")
    assert sum("t4-001 is empty" in text for text in tick(again)) == 2, "it was drained anew"


def test_who_asks_why_is_told_of_closed_nodes(tmp_path: Path) -> None:
    world = World(tmp_path, "2x t4:4")
    world.play(f"""
        {RUNS}
        order cordon t4-000
        order drain t4-001
        submit b unprofiled
        go
    """)
    service = service_of(world)
    assert service.explain("a-1")["lines"] == ["t4-000 is cordoned by ann; the job keeps what it has"]
    assert service.describe("a-1")["closed"] == service.explain("a-1")["lines"]
    why = "waiting for nodes that take no new work now: t4-000 is cordoned by ann; t4-001 is drained by ann"
    assert service.explain("b-2")["lines"] == [f"b-2 is {why}"]
    ((row, _), _) = service.page(None, 10)
    assert (row["id"], row["reason"]) == ("b-2", why)
    rows = {row["machine"]: (row["closed"], row["leaves"]) for row in service.machines()}
    assert rows == {"t4-000": ("cordoned by ann", False), "t4-001": ("drained by ann", True)}
