"""Scaling in the service: what is stored before it is asked for, what Ray's autoscaler hears, what jobs see."""

from __future__ import annotations

from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.scaling_settings import ScalingSettings
from coadapt.core.settings import Settings
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Plan, Round
from coadapt.scheduler.nodes.closures import Closed, Closure, Source
from coadapt.scheduler.nodes.node_view import NodesSnapshot
from coadapt.scheduler.nodes.scaling import FACT, Scaling
from coadapt.scheduler.power.autoscaler import AutoscalerWishes
from coadapt.scheduler.store.store import Store
from coadapt.scheduler.views.scaling_views import scaling_view

from tests.support.rounds import rigid
from tests.support.scaling import settings

KINDS = settings(budget=6.0, rounds=2, t4="t4:4 2.0 0-3", idle_s=100.0)


class View:
    """Nodes as jobs may use them, each with its node type."""

    def __init__(self, *nodes: Node, closed: dict[str, Closed] | None = None) -> None:
        self.show(*nodes)
        self.closed = closed or {}

    def show(self, *nodes: Node, closed: dict[str, Closed] | None = None) -> None:
        self.snapshot = NodesSnapshot(
            cluster=Cluster(tuple(node for node in nodes if node.id not in (closed or {}))),
            alive=frozenset(node.id for node in nodes),
            ready=True,
            machines={node.id: node.machine_name for node in nodes},
            node_types={node.id: node.gpu_type for node in nodes},
            closed=closed or {},
        )


class World:
    """A store, nodes, and an autoscaler that only hears."""

    def __init__(self, folder: Path, given: ScalingSettings | None = KINDS) -> None:
        self.path, self.view, self.heard = folder / "jobs.sqlite", View(), list[dict[str, Any]]()
        self.settings = Settings(state_dir=str(folder), scaling=given)
        self.refuses, self.number, self.now = False, 0, 1000.0
        self.busy: dict[str, str] = {}
        self.jobs: list[Any] = []
        self.open()

    def open(self) -> None:
        def request(**wish: Any) -> None:
            if self.refuses:
                raise RuntimeError("no autoscaler runs")
            self.heard.append(wish)

        self.store = Store(self.path)
        self.scaling = Scaling(self.settings, self.store, self.view, AutoscalerWishes(request))

    def reopen(self) -> None:
        self.store.close()
        self.open()

    def tick(self, seconds: float = 1.0, *, round: bool = False) -> bool:
        self.now += seconds
        last: tuple[int, Round, Plan] | None = None
        if round:
            self.number += 1
            snapshot = self.scaling.nodes.snapshot
            asleep = tuple(one.node for one in snapshot.asleep)
            found = Round(self.now, 60.0, snapshot.cluster, self.jobs, asleep)
            last = self.number, found, make_policy("fifo").plan(found)
        changed = self.scaling.tick(lambda: self.busy, last, self.now)
        if (asking := self.scaling._asking) is not None:
            wait([asking])
        return changed

    def told(self) -> list[str]:
        return [str(event.data["text"]) for event in self.store.cluster_events(50)]

    def asked(self) -> int:
        """Return for how many nodes the autoscaler was last asked."""
        return len(self.heard[-1]["bundles"]) if self.heard else 0


def test_a_request_is_stored_before_the_autoscaler_hears_of_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.jobs = [rigid("j", 4)]
    stored_then: list[str | None] = []
    world.scaling._wishes._request = lambda **wish: stored_then.append(world.store.read_fact(FACT))
    world.tick(round=True)
    world.tick(60.0, round=True)
    assert '"reason": "job j waited for 4 GPUs of type t4"' in (stored_then[-1] or "")
    assert world.told()[-1] == "1 node of type t4 is asked for, at 2 an hour: job j waited for 4 GPUs of type t4"


def test_the_autoscaler_hears_of_nodes_by_their_label_and_again_after_a_while(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.jobs = [rigid("j", 4)]
    world.tick(round=True)
    world.tick(round=True)
    assert world.heard[-1] == {
        "bundles": [{"GPU": 4.0}],
        "bundle_label_selectors": [{"coadapt.io/node-type": "t4"}],
    }
    heard = len(world.heard)
    world.tick()
    assert len(world.heard) == heard
    world.tick(61.0)
    assert len(world.heard) == heard + 1, "Ray may have lost it"


def test_a_service_that_is_killed_after_it_asked_does_not_ask_twice(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.jobs = [rigid("j", 4)]
    world.tick(round=True)
    world.tick(round=True)
    for _ in range(3):
        world.reopen()
        for _ in range(3):
            world.tick(60.0, round=True)
    assert (world.asked(), world.scaling.state.numbered) == (1, 1)
    world.view.show(Node("n0", "t4", 4, machine="m0"))
    world.reopen()
    world.tick(60.0, round=True)
    assert (world.asked(), world.scaling.state.asked) == (1, {})
    assert world.told()[-1].startswith("m0 of type t4 has come, 10 min after it was asked for")


def test_an_autoscaler_that_does_not_answer_is_told_once_and_asked_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.refuses, world.jobs = True, [rigid("j", 4)]
    world.tick(round=True)
    world.tick(round=True)
    for _ in range(5):
        world.tick(6.0)
    assert world.told().count("Ray's autoscaler could not be asked: no autoscaler runs") == 1
    assert scaling_of(world)["lines"][-1] == (
        "Ray's autoscaler could not be asked: no autoscaler runs; it is tried again"
    )
    world.refuses = False
    world.tick(6.0)
    world.tick()
    assert (world.asked(), world.scaling.trouble) == (1, "")


def test_a_node_that_is_given_up_leaves_rounds_first_and_its_lease_after(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.view.show(Node("n0", "t4", 4, machine="m0"), Node("n1", "t4", 4, machine="m1"))
    world.busy = {"n1": "job j is there"}
    world.tick()
    world.tick(101.0)
    assert [node.id for node in world.scaling.nodes.snapshot.cluster.nodes] == ["n1"]
    assert (world.scaling.unleased, world.asked()) == (frozenset(), 1)
    world.tick()
    assert world.scaling.unleased == {"n0"}
    world.tick()
    assert world.asked() == 0, "the node with a lease is not idle, and the autoscaler may not take m0 for it"
    world.view.show(Node("n1", "t4", 4, machine="m1"))
    world.tick()
    assert (world.asked(), world.told()[-1]) == (1, "m0 has gone, as it was given up")


def test_what_may_be_bought_is_a_node_that_jobs_wait_for(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.view.show(Node("n0", "t4", 4, machine="m0"))
    world.busy = {"n0": "job j is there"}
    world.tick()
    found = world.scaling.nodes.snapshot.asleep
    assert [(one.node.gpu_type, one.waking, one.bought) for one in found] == [("t4", False, True)] * 2
    assert world.scaling.nodes.snapshot is world.scaling.nodes.snapshot


@pytest.mark.parametrize(
    ("source", "stays"), [(Source.OPERATOR, True), (Source.WINDOW, True), (Source.RAY, False)]
)
def test_a_node_that_an_operator_closed_is_not_given_up(tmp_path: Path, source: Source, stays: bool) -> None:
    world = World(tmp_path)
    closed = {"n0": Closed((Closure(source, "m0", "cordoned"),))}
    world.view.show(Node("n0", "t4", 4, machine="m0"), closed=closed)
    world.tick()
    world.tick(101.0)
    assert bool(world.scaling.state.leaving) is not stays


def test_notices_of_clouds_are_counted_over_restarts(tmp_path: Path) -> None:
    world = World(tmp_path)
    node = Node("n0", "t4", 4, machine="m0")
    world.view.show(node)
    world.tick()
    world.tick(7200.0)
    world.view.show(node, closed={"n0": Closed((Closure(Source.NOTICE, "m0", "spot notice of aws"),))})
    world.tick()
    world.reopen()
    world.tick()
    world.tick(61.0)
    assert (world.scaling.state.notices, world.scaling.state.node_hours["t4"]) == (
        {"t4": 1},
        pytest.approx(2.0, abs=0.05),
    )


def test_without_settings_nothing_is_done_and_with_a_dry_run_nothing_is_asked(tmp_path: Path) -> None:
    world = World(tmp_path, None)
    world.jobs = [rigid("j", 4)]
    for _ in range(4):
        assert not world.tick(60.0, round=True)
    assert (world.heard, world.scaling.nodes.snapshot) == ([], world.view.snapshot)
    world.settings.take(
        world.settings.model_copy(update={"scaling": KINDS.model_copy(update={"mode": "dry_run"})})
    )
    for _ in range(4):
        world.tick(60.0, round=True)
    assert (world.heard, world.scaling.state.requests) == ([], ())
    assert scaling_of(world)["lines"][-1] == (
        "a dry run asks for nothing; it would: 1 node of type t4 is asked for, at 2 an hour: job j waited for 4 "
        "GPUs of type t4"
    )


def test_what_is_stored_and_cannot_be_read_is_told(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.store.write_fact(FACT, '{"requests": 5}')
    world.reopen()
    assert world.told()[-1].startswith("what is stored of nodes that were bought cannot be read: ")
    assert world.scaling.state.numbered == 0


def test_people_are_told_what_it_costs_and_why(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.view.show(Node("n0", "t4", 4, machine="m0"))
    world.busy, world.jobs = {"n0": "job k is there"}, [rigid("j", 8)]
    world.tick(round=True)
    world.tick(60.0, round=True)
    world.tick(30.0)
    view = scaling_of(world)
    assert view["lines"] == [
        "nodes cost 4.00 dollars an hour, 67% of the budget of 6.00; 0.07 so far",
        "1 of t4 asked for 30 s ago: job j waited for 8 GPUs of type t4",
    ]
    (row,) = view["types"]
    assert (row["here"], row["asked"], row["value"], row["value_per_dollar"]) == (1, 1, 1.0, 0.5)
    assert world.scaling.figures().nodes == {"t4": {"here": 1, "asked": 1, "leaving": 0}}


def scaling_of(world: World) -> Any:
    found, scaling = world.scaling.settings, world.scaling
    assert found is not None
    return scaling_view(found, scaling.state, scaling.control(found), world.now, scaling.trouble)
