"""What is shown of machines: who sleeps, who has failed, which names are given twice, and who could be off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.errors import PowerError
from coadapt.core.settings import Settings
from coadapt.scheduler.nodes.node_view import NodesSnapshot
from coadapt.scheduler.nodes.powering import Powering
from coadapt.scheduler.power.machine import ASLEEP, FAILED, LEAVING, ON, WAKING, Machine
from coadapt.scheduler.power.reactions import Answer, Do
from coadapt.scheduler.services.contract import Advice
from coadapt.scheduler.store.store import Store

from tests.support.machines import SETTINGS, NotingHands

NODES = (Node("n0", "a100", 4, machine="m0"), Node("n1", "t4", 2, machine="m1"), Node("n2", "t4", 2, machine="m1"))
SLEEPS = Node("n9", "a100", 4, 8.0, 64.0, machine="m9")


class View:
    """Nodes as Ray shows them."""

    def __init__(self, *nodes: Node) -> None:
        self.snapshot = NodesSnapshot(
            cluster=Cluster(nodes),
            alive=frozenset(node.id for node in nodes),
            ready=True,
            machines={node.id: node.machine_name for node in nodes},
        )


def powering(folder: Path, *machines: Machine, power: bool = True, view: View | None = None) -> Powering:
    store = Store(folder / "jobs.sqlite")
    store.machine_rows.write({one.name: one.to_json() for one in machines})
    settings = Settings(state_dir=str(folder), power=SETTINGS if power else None)
    return Powering(settings, store, view or View(*NODES), hands=NotingHands())


def asked(found: Powering) -> list[str]:
    """Return what was to be done to machines."""
    hands = found._hands
    assert isinstance(hands, NotingHands)
    return hands.asked


def test_machines_are_listed_whether_their_nodes_are_there_or_not(tmp_path: Path) -> None:
    found = powering(tmp_path, Machine("m9", SLEEPS).turned(ASLEEP, 5.0, "nobody needs it", until_s=9.0))
    assert [(row["machine"], row["state"], row["node"]) for row in found.rows()] == [
        ("m0", "on", "n0"),
        ("m1", "on", "n1"),
        ("m9", "asleep", None),
    ]
    (row,) = found.asleep()
    assert (row["since_s"], row["until_s"], row["gpus"], row["reason"]) == (5.0, 9.0, 4, "nobody needs it")


def test_a_machine_that_is_back_is_not_shown_twice_before_power_has_seen_it(tmp_path: Path) -> None:
    machine = Machine("m0", replace(NODES[0], id="before")).turned(ASLEEP, 5.0, "nobody needs it")
    assert powering(tmp_path, machine).asleep() == []


def test_names_given_twice_and_machines_that_failed_are_told(tmp_path: Path) -> None:
    found = powering(tmp_path, Machine("m9", SLEEPS).turned(FAILED, 5.0, "it did not come back in 200 s"))
    twice, failed = found.notes(dict, 10.0)
    assert twice.startswith(
        "2 nodes have the machine name m1, so that neither is powered off; the label coadapt.io/"
    )
    assert failed == "m9 has failed: it did not come back in 200 s; `coadapt node wake m9` tries again"


def test_advice_is_shown_without_a_setting_and_followed_with_one(tmp_path: Path) -> None:
    advice = Advice(sleep=("m0",), until_s={"m0": 5000.0})
    shown = powering(tmp_path / "a", power=False)
    shown.take(advice, 10.0)
    assert not shown.tick(dict, 10.0)
    assert [note.startswith("1 node could be off until about") for note in shown.notes(dict, 10.0)] == [True]
    shown.order("keep", "m0", {}, 10.0)
    assert shown.notes(dict, 10.0) == [], "an operator keeps it on"
    done = powering(tmp_path / "b")
    done.take(advice, 10.0)
    assert done.tick(dict, 10.0)
    assert [(row["machine"], row["state"]) for row in done.asleep()] == [("m0", "leaving")]
    assert [one.node.id for one in done.nodes.snapshot.asleep] == ["n0"]


def test_nothing_is_done_before_the_nodes_are_known(tmp_path: Path) -> None:
    view = View(*NODES)
    view.snapshot = replace(view.snapshot, ready=False)
    found = powering(tmp_path, Machine("m9", SLEEPS).turned(LEAVING, 5.0, "nobody needs it"), view=view)
    assert not found.tick(dict, 1000.0)
    assert found.control.machines["m9"].state is LEAVING


def test_only_for_the_autoscaler_a_machine_that_leaves_is_not_leased(tmp_path: Path) -> None:
    leaving = Machine("m0", NODES[0]).turned(LEAVING, 5.0, "nobody needs it")
    assert powering(tmp_path / "a", leaving).unleased == frozenset()
    found = powering(tmp_path / "b", leaving)
    found._settings = SETTINGS.model_copy(update={"adapter": "autoscaler"})
    assert found.unleased == {"m0"}


def test_orders_wait_until_the_nodes_are_known(tmp_path: Path) -> None:
    view = View(*NODES)
    view.snapshot = NodesSnapshot()
    found = powering(tmp_path, view=view)
    with pytest.raises(PowerError, match="m0 is left as it is: the service has just started"):
        found.order("keep", "m0", {}, 10.0)


def test_the_list_says_which_machine_has_a_name_that_others_have_too(tmp_path: Path) -> None:
    assert [row["reason"] for row in powering(tmp_path).rows()] == ["", "2 nodes have this machine name"]


def test_a_gpu_type_of_the_settings_that_no_machine_has_is_told(tmp_path: Path) -> None:
    found = powering(tmp_path, view=View(NODES[0]))
    found._settings = SETTINGS.model_copy(update={"keep": {"a10": 1, "a100": 1}, "idle_watts": {"h100": 800.0}})
    assert found.notes(dict, 10.0) == [
        "keep of the power file names a10, which no machine has; known: a100",
        "idle_watts of the power file names h100, which no machine has; known: a100",
    ]


def test_machines_left_in_the_middle_are_settled_when_power_is_not_set_up_any_more(tmp_path: Path) -> None:
    left = [
        Machine("m0", NODES[0]).turned(LEAVING, 5.0, "nobody needs it"),
        Machine("m7", replace(SLEEPS, machine="m7")).turned(WAKING, 5.0, "it is needed"),
        Machine("m8", replace(SLEEPS, machine="m8")).turned(LEAVING, 5.0, "nobody needs it"),
        Machine("m9", SLEEPS).turned(ASLEEP, 5.0, "nobody needs it"),
    ]
    found = powering(tmp_path, *left, power=False)
    assert [node.id for node in found.nodes.snapshot.cluster.nodes] == ["n1", "n2"]
    assert found.tick(dict, 10.0)
    assert [(name, one.state) for name, one in sorted(found.control.machines.items())] == [
        ("m0", ON),
        ("m7", FAILED),
        ("m8", FAILED),
        ("m9", ASLEEP),
    ]
    assert [node.id for node in found.nodes.snapshot.cluster.nodes] == ["n0", "n1", "n2"], "jobs may use it again"
    assert asked(found) == ["open m0", "forget m7", "forget m8"]
    notes = found.notes(dict, 10.0)
    assert "m7 has failed: its node is not there, and power is not set up any more" in notes
    assert notes[-1].startswith("m9 sleeps, and nobody wakes it: power is not set up: `coadapt up --power ")
    assert not found.tick(dict, 11.0)


def test_a_machine_that_comes_back_is_on_also_when_power_is_not_set_up_any_more(tmp_path: Path) -> None:
    for state in (ASLEEP, WAKING, FAILED):
        machine = Machine("m0", replace(NODES[0], id="before")).turned(state, 5.0, "nobody needs it")
        found = powering(tmp_path / state, machine, power=False)
        assert found.tick(dict, 10.0)
        assert [(row["machine"], row["state"]) for row in found.rows()] == [("m0", "on"), ("m1", "on")]


def test_without_a_setting_no_machine_is_ever_touched(tmp_path: Path) -> None:
    found = powering(tmp_path, power=False)
    with pytest.raises(AssertionError, match="power is not set up"):
        Powering(Settings(state_dir=str(tmp_path)), Store(tmp_path / "b.sqlite"), View())._hands.do(
            Do.SLEEP, Machine("m0", NODES[0])
        )
    assert found._hands.answers() == dict[str, Answer]()
