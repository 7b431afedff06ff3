"""What is done once per machine is done once, however many nodes it has, and again when it comes back."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.executor.files.site import Site
from coadapt.executor.processes.template_wire import ONE_THREAD
from coadapt.scheduler.nodes import machines
from coadapt.scheduler.nodes.node_view import NodesSnapshot


def snapshot(*nodes: tuple[str, str, bool]) -> NodesSnapshot:
    """Make a snapshot of nodes (id, address, emulated)."""
    cluster = Cluster(tuple(Node(id, "t4", 2, emulated=emulated) for id, _, emulated in nodes))
    return NodesSnapshot(cluster=cluster, names={id: address for id, address, _ in nodes}, ready=True)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Return (address, node, threads) of every template asked for."""
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr("ray.util.get_node_ip_address", lambda: "10.0.0.1")
    monkeypatch.setattr(
        machines.Machines,
        "_do",
        lambda self, address, node, work, *args, **how: asked.append((address, node, *args)),
    )
    return asked


def test_nodes_on_one_machine_are_one_machine() -> None:
    nodes = snapshot(("a", "10.0.0.1", True), ("b", "10.0.0.1", True), ("c", "10.0.0.2", True))
    assert machines.machines_of(nodes) == {"10.0.0.1": "a", "10.0.0.2": "c"}


def test_a_machine_gets_a_template_once_and_again_when_it_returns(done: list[tuple[Any, ...]]) -> None:
    both = snapshot(("a", "10.0.0.1", False), ("b", "10.0.0.1", False), ("c", "10.0.0.2", False))
    found = machines.Machines()
    found.see(both)
    found.see(both)
    assert sorted(done) == [("10.0.0.1", "a", {}), ("10.0.0.2", "c", {})]
    found.see(snapshot(("a", "10.0.0.1", False)))
    found.see(both)
    assert sorted(done)[2:] == [("10.0.0.2", "c", {})]


def test_emulated_nodes_train_with_one_thread_and_so_do_their_templates(done: list[tuple[Any, ...]]) -> None:
    machines.Machines().see(snapshot(("a", "10.0.0.1", True)))
    assert done == [("10.0.0.1", "a", ONE_THREAD)]


def test_a_machine_that_is_away_when_a_job_ends_is_cleaned_once_when_it_is_back(
    done: list[tuple[Any, ...]],
) -> None:
    found = machines.Machines()
    found.see(snapshot(("a", "10.0.0.1", False)))
    done.clear()
    site, told = Site("job-1", outputs_url="s3://bucket/job-1/outputs"), list[str]()
    found.clean(["10.0.0.1", "10.0.0.2"], site, told.append)
    assert done == [("10.0.0.1", "a", site)]
    assert told == ["10.0.0.2 is away: outputs that it had not sent are sent once it is back"]
    back = snapshot(("a", "10.0.0.1", False), ("c", "10.0.0.2", False))
    for _ in range(2):
        found.see(back)
    assert [what for what in done if site in what] == [("10.0.0.1", "a", site), ("10.0.0.2", "c", site)]


def test_a_machine_is_busy_while_something_is_done_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.util.get_node_ip_address", lambda: "10.0.0.1")
    found, nodes = machines.Machines(), snapshot(("a", "10.0.0.1", False), ("c", "10.0.0.2", False))
    go_on, told = threading.Event(), threading.Event()
    found._do("10.0.0.1", "a", lambda: "done" if go_on.wait(30) else "", done=lambda sentence: told.set())
    assert found.busy_nodes(nodes) == ["a"]
    go_on.set()
    assert told.wait(30)
    assert found.busy_nodes(nodes) == []
