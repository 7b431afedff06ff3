"""Power follows advice and orders as far as they are safe, writes each change first, and goes on after a kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.errors import PowerError
from coadapt.core.power_settings import PowerSettings
from coadapt.scheduler.nodes.node_view import NodesSnapshot
from coadapt.scheduler.nodes.powered_nodes import PoweredNodes, with_power
from coadapt.scheduler.nodes.powering import could_be_off
from coadapt.scheduler.power.machine import saved_kwh
from coadapt.scheduler.power.reactions import Answer, Do
from coadapt.scheduler.services.contract import Advice
from coadapt.scheduler.store.failures import StoreFailure

from tests.support.cycles import World
from tests.support.machines import SETTINGS, MachineWorld

FREE, SLEPT, OFF = Answer(Do.LOOK, True), Answer(Do.SLEEP, True), Answer(Do.STATE, True, is_on=False)


def test_without_a_setting_nothing_is_done_and_the_advice_is_only_shown(tmp_path: Path) -> None:
    world = MachineWorld(tmp_path, "a100:4 a100:4 t4:2", settings=None)
    assert world.advise(sleep=["m0", "m1"], m0=90_000.0, m1=80_000.0) == []
    assert (world.states(), world.told()) == ("", [])
    (note,) = could_be_off(world.control.advised, world.seen, world.now)
    assert note.startswith("2 nodes could be off until about ")
    assert note.endswith(": m0, m1")
    world.busy["n0"] = "a-1 is there"
    assert could_be_off(world.control.advised, world.seen, world.now)[0].startswith("1 node could be off until")
    world.advise(wake=["m1"])
    assert could_be_off(world.control.advised, world.seen, world.now) == []
    with pytest.raises(PowerError, match="power is not set up: `coadapt up --power FILE"):
        world.order("sleep", "m0")


def test_advice_puts_a_machine_to_sleep_and_wakes_it(tmp_path: Path) -> None:
    world = MachineWorld(tmp_path, "a100:4 t4:2")
    assert world.advise(sleep=["m0"], m0=90_000.0) == ["look m0"]
    assert world.states() == "m0 leaving"
    world.put_to_sleep("m0")
    assert world.states() == "m0 asleep"
    assert world.control.machines["m0"].until_s == 90_000.0
    assert world.advise(wake=["m0"]) == ["wake m0"]
    world.tick(m0=Answer(Do.WAKE, True))
    world.come_back("m0", "other")
    world.tick(10.0)
    assert world.states() == "m0 on"
    assert world.told()[-1] == "m0 is awake after 11 s"


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda world: world.busy.update(n0="a-1 is there"), "a-1 is there"),
        (lambda world: world.homes.add("n0"), "the head or the scheduler runs there"),
        (lambda world: world.order("keep", "m0"), "`coadapt node keep` keeps it on"),
        (
            lambda world: world.nodes.update(x=replace(world.nodes["m0"], id="x")),
            "2 nodes have this machine name; the label coadapt.io/machine gives each its own",
        ),
        (
            lambda world: world.nodes.update(m0=replace(world.nodes["m0"], id="m0", machine="")),
            "its node has neither a host name nor the label coadapt.io/machine, by which it could be woken",
        ),
    ],
    ids=["a job", "head or service", "kept", "two of one name", "no name"],
)
def test_what_must_stay_on_is_never_powered_off_by_advice_nor_by_order(
    tmp_path: Path, prepare: object, why: str
) -> None:
    world = MachineWorld(tmp_path, "a100:4 t4:2")
    assert callable(prepare)
    prepare(world)
    assert world.advise(sleep=["m0"]) == []
    with pytest.raises(PowerError) as refused:
        world.order("sleep", "m0")
    assert str(refused.value) == f"m0 is not powered off: {why}"


@pytest.mark.parametrize(("keep", "asleep"), [(1, 2), ({"a100": 2}, 1), ({"t4": 1}, 3), (0, 3)], ids=str)
def test_the_last_nodes_of_a_type_that_the_operator_keeps_stay_on(
    tmp_path: Path, keep: int | dict[str, int], asleep: int
) -> None:
    settings = PowerSettings.model_validate({"adapter": "emulated", "keep": keep})
    world = MachineWorld(tmp_path, "a100:4 a100:4 a100:4", settings)
    assert len(world.advise(sleep=["m0", "m1", "m2"])) == asleep


def test_a_job_that_comes_while_others_are_looked_for_keeps_the_machine_on(tmp_path: Path) -> None:
    world = MachineWorld(tmp_path, "a100:4")
    world.advise(sleep=["m0"])
    world.busy["n0"] = "a-1 is there"
    assert world.tick(m0=FREE) == ["open m0"]
    assert world.states() == "m0 on"
    world.busy.clear()
    assert world.advise(sleep=["m0"]) == [], "it is left alone for a while"
    world.now += 300.0
    assert world.advise(sleep=["m0"]) == ["look m0"]


def test_an_operator_need_not_wait_until_a_machine_has_rested(tmp_path: Path) -> None:
    world = MachineWorld(tmp_path, "a100:4")
    world.advise(sleep=["m0"])
    world.tick(m0=Answer(Do.LOOK, False, "a Ray actor is there: x"))
    assert world.order("sleep", "m0")
    assert world.states() == "m0 leaving"


def test_a_machine_that_does_not_come_back_is_told_and_another_of_its_kind_is_woken(tmp_path: Path) -> None:
    world = MachineWorld(tmp_path, "a100:8 t4:4 a100:4 a100:8 a100:4")
    world.put_to_sleep("m0", "m1", "m2", "m3")
    assert world.advise(wake=["m0"]) == ["wake m0"]
    assert world.tick(201.0) == ["forget m0", "wake m3"]
    assert world.states() == "m0 failed, m1 asleep, m2 asleep, m3 waking"
    assert world.told()[-2:] == [
        "m0 has failed: it did not come back in 200 s",
        "m3 is woken: in place of m0, which did not come back",
    ]
    assert [one.node.machine for one in with_power(NodesSnapshot(), world.control.machines, 20.0).asleep] == [
        "m1",
        "m2",
        "m3",
    ], "nobody counts on a machine that has failed"
    assert world.advise(wake=["m0"]) == [], "a service that still asks for it does not get it"
    assert world.order("wake", "m0"), "an operator may try again"


def test_a_machine_of_the_autoscaler_may_come_back_under_another_name(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"adapter": "autoscaler"})
    world = MachineWorld(tmp_path, "a100:8 a100:8 a100:8", settings)
    world.put_to_sleep("m0", "m1")
    world.advise(wake=["m0"])
    world.tick(m0=Answer(Do.WAKE, True))
    assert world.states() == "m0 waking, m1 asleep", "m2 was there before"
    world.nodes["ip-7"] = Node("n7", "a100", 8, 8.0, 64.0, machine="ip-7")
    world.tick()
    assert world.states() == "m1 asleep"
    assert world.told()[-1] == "ip-7 has come in place of m0"
    world.advise(wake=["m1"])
    world.tick(201.0)
    assert world.states() == "m1 failed", "the autoscaler itself tries others"


def test_a_machine_that_will_never_come_back_can_be_forgotten(tmp_path: Path) -> None:
    world = MachineWorld(tmp_path, "a100:4 t4:2")
    world.put_to_sleep("m0")
    with pytest.raises(PowerError, match="only a machine that sleeps or has failed can be"):
        world.order("forget", "m1")
    assert world.order("forget", "m0")
    world.reopen()
    assert world.states() == ""


def test_orders_for_unknown_machines_and_those_that_change_nothing(tmp_path: Path) -> None:
    world = MachineWorld(tmp_path, "a100:4 t4:2")
    with pytest.raises(KeyError, match="no machine m7; `coadapt node list` shows all"):
        world.order("wake", "m7")
    assert not world.order("wake", "m0")
    assert [world.order("keep", "m0"), world.order("keep", "m0")] == [True, False]
    assert [world.order("unkeep", "m0"), world.order("unkeep", "m0")] == [True, False]
    world.put_to_sleep("m0")
    assert not world.order("sleep", "m0")


def test_another_idle_machine_sleeps_in_place_of_one_that_is_kept(tmp_path: Path) -> None:
    world = MachineWorld(tmp_path, "a100:4 a100:4 a100:4 t4:2")
    world.order("keep", "m0")
    world.busy["n1"] = "a-1 is there"
    assert world.advise(sleep=["m0", "m3"]) == ["look m2", "look m3"]
    (tmp_path / "b").mkdir()
    other = MachineWorld(tmp_path / "b", "a100:4 a100:4")
    other.busy["n0"] = "a-1 is there"
    assert other.advise(sleep=["m0"]) == [], "a job has come, so that fewer nodes are idle"


@pytest.mark.parametrize("settings", [SETTINGS, None], ids=["power", "no power"])
def test_a_kept_machine_whose_node_is_gone_is_not_said_to_be_on(
    tmp_path: Path, settings: PowerSettings | None
) -> None:
    world = MachineWorld(tmp_path, "a100:4 t4:2", settings)
    world.order("keep", "m0")
    world.away.add("m0")
    world.tick()
    world.tick(59.0)
    assert world.states() == "m0 on"
    world.tick(2.0)
    assert (world.states(), world.told()[-1]) == ("m0 failed", "m0 has failed: its node has gone")
    assert world.order("forget", "m0")


def test_a_machine_that_is_kept_while_it_leaves_stays_on_or_comes_back(tmp_path: Path) -> None:
    world = MachineWorld(tmp_path, "a100:4 t4:2")
    world.order("sleep", "m0")
    assert world.order("keep", "m0")
    assert (world.states(), world.hands.asked[-1]) == ("m0 on", "open m0")
    assert world.told()[-1] == "m0 stays on: an operator keeps it on"
    world.order("sleep", "m1")
    world.tick(m1=FREE)
    assert world.order("keep", "m1")
    world.away.add("m1")
    world.tick(m1=SLEPT)
    world.tick()
    assert world.tick(m1=OFF) == ["wake m1"]


def test_a_machine_that_is_needed_again_is_not_said_to_sleep(tmp_path: Path) -> None:
    world = MachineWorld(tmp_path, "a100:4 t4:2")
    world.order("sleep", "m0")
    world.tick(m0=FREE)
    assert world.order("wake", "m0")
    with pytest.raises(PowerError, match="m0 is not left asleep: it is needed again, and wakes once it is off"):
        world.order("sleep", "m0")


def test_a_machine_that_has_failed_is_said_to_have(tmp_path: Path) -> None:
    world = MachineWorld(tmp_path, "a100:4 t4:2")
    world.put_to_sleep("m0")
    world.order("wake", "m0")
    world.tick(201.0)
    with pytest.raises(PowerError, match="m0 is not powered off: it has failed"):
        world.order("sleep", "m0")


def test_a_service_that_was_killed_anywhere_goes_on_from_its_store(tmp_path: Path) -> None:
    """Kill the service after every single step of a sleep and of a wake; each time it ends where it should."""
    for kills in range(1, 9):
        world = MachineWorld(tmp_path / str(kills), "a100:4 t4:2")
        world.advise(sleep=["m0"])
        answers: dict[str, Answer] = {}
        for step in range(30):
            if step == kills - 1:
                world.reopen()  # what was under way is never answered
                answers = {}
            begun = world.tick(20.0, **answers)
            answers = {}
            for line in begun:
                do, _, name = line.partition(" ")
                if do in ("look", "sleep", "wake"):
                    answers[name] = Answer(Do(do), True)
                if do == "sleep":
                    world.away.add("m0")
                if do == "wake":
                    world.come_back("m0", f"n{step}b")
                if do == "state":
                    answers[name] = Answer(Do.STATE, True, is_on="m0" not in world.away)
            if world.states() == "m0 asleep":
                begun = world.advise(wake=["m0"])
                world.come_back("m0", "woken")
            if world.states() == "m0 on":
                break
        assert world.states() == "m0 on", f"killed after step {kills}: {world.told()}"
        assert "m0 sleeps" in world.told()


def test_nothing_is_done_to_a_machine_if_the_change_cannot_be_written(tmp_path: Path) -> None:
    world = MachineWorld(tmp_path, "a100:4")
    world.store.close()
    with pytest.raises(StoreFailure, match="the store is closed"):
        world.advise(sleep=["m0"])
    assert (world.hands.asked, world.states()) == ([], "")
    world.open()
    world.control.take(Advice(sleep=("m0",)), world.now)
    assert world.tick() == ["look m0"]


def test_a_torn_record_of_a_machine_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    world = MachineWorld(tmp_path, "a100:4 t4:2")
    world.put_to_sleep("m0", "m1")
    world.store.machine_rows.write({"m0": "{"})
    world.reopen()
    assert world.states() == "m1 asleep"
    assert "machine m0: its record cannot be read" in world.told()[-1]


def test_kwh_count_only_time_in_which_machines_were_off(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"idle_watts": {"a100": 900.0}, "asleep_watts": 100.0})
    world = MachineWorld(tmp_path, "a100:4 t4:2", settings)
    assert saved_kwh(world.control.machines, settings, world.now) is None
    world.put_to_sleep("m0", "m1")
    world.now += 3600.0
    assert saved_kwh(world.control.machines, settings, world.now) == pytest.approx(0.8)
    world.advise(wake=["m0"])
    world.now += 3600.0
    world.come_back("m0", "other")
    world.tick(10.0)
    assert saved_kwh(world.control.machines, settings, world.now) == pytest.approx(0.8, rel=1e-3)
    assert saved_kwh(world.control.machines, SETTINGS, world.now) is None, "no watts are configured"


# --- with rounds -----------------------------------------------------------------------------------------------


def test_a_machine_that_leaves_is_out_of_the_very_next_snapshot_and_stays_known(tmp_path: Path) -> None:
    world = MachineWorld(tmp_path, "a100:4 t4:2")
    view = NodesSnapshot(cluster=world.seen.cluster, ready=True)

    class View:
        snapshot = view

    nodes = PoweredNodes(View(), lambda: world.control.machines, 300.0)
    assert nodes.snapshot is view
    world.order("sleep", "m0")
    found = nodes.snapshot
    assert ([node.id for node in found.cluster.nodes], [one.node.id for one in found.asleep]) == (["n1"], ["n0"])
    world.order("keep", "m1")
    assert nodes.snapshot.cluster is found.cluster, "policies cache by the cluster object"


def test_what_a_job_has_or_is_to_have_is_in_use(tmp_path: Path) -> None:
    world = World(tmp_path, "3x t4:2")
    world.play("submit a unprofiled\nsubmit b types=t4\nwish a t4-000:2\ngo\nruns a")
    assert set(world.cycle.in_use()) == {"t4-000", "t4-001"}, "a job, and a profile run"
    world.play("wish a t4-002:2\ngo")
    assert {"t4-000", "t4-002"} <= set(world.cycle.in_use()), "it still leaves one node, and is to have the other"
    world.play("cancel a\ncancel b")
    assert set(world.cycle.in_use()) == {"t4-000", "t4-001", "t4-002"}, "its processes may still end"
    assert world.cycle.in_use()["t4-000"] == f"{world.ids['a']} is there"


def test_a_node_without_a_machine_name_is_still_a_node() -> None:
    assert with_power(NodesSnapshot(Cluster((Node("n", "t4", 1),))), {}, 1.0).cluster.nodes[0].machine_name == "n"
