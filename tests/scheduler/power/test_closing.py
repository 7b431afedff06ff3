"""A node is closed to every Ray application before its machine leaves, and whoever is there keeps it on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from coadapt.core.cluster import Node
from coadapt.scheduler.power import closing
from coadapt.scheduler.runtime import ray_private

from tests.support.emulated_cluster import EmulatedCluster

pytestmark = pytest.mark.live


@pytest.fixture
def node(emulated_cluster: EmulatedCluster) -> Iterator[Node]:
    """Add a node that no other test has used, with a lease of all but half a CPU."""
    import ray
    from ray.util import placement_group, remove_placement_group

    added = emulated_cluster.cluster.add_node(
        num_cpus=2, num_gpus=2, include_dashboard=False, object_store_memory=80 * 2**20, labels={"added": "here"}
    )
    (id,) = (row["NodeID"] for row in ray.nodes() if row["Alive"] and row["Labels"].get("added") == "here")
    lease = placement_group(
        [{"GPU": 2, "CPU": 1.5}], strategy="STRICT_PACK", bundle_label_selector=[{"ray.io/node-id": id}]
    )
    assert lease.wait(60)
    found = Node(id, "t4", 2, cpus=1.5, machine="m")
    yield found
    closing.reopen(found)
    remove_placement_group(lease)
    emulated_cluster.cluster.remove_node(added)


def on(node: Node, **options: Any) -> dict[str, Any]:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node.id, soft=False), **options}


def test_a_closed_node_takes_nobody_else_and_an_open_one_does_again(node: Node) -> None:
    import ray

    @ray.remote
    def here() -> str:
        return str(ray.get_runtime_context().get_node_id())

    assert closing.close(node, ray_private) == ""
    assert closing.close(node, ray_private) == "", "it may be closed twice, as after a restart of the service"
    waiting = here.options(**on(node, num_cpus=0.5)).remote()
    assert ray.wait([waiting], timeout=1.0)[1] == [waiting]
    closing.reopen(node)
    assert ray.get(waiting, timeout=60) == node.id


@pytest.mark.parametrize(
    ("cpus", "said"), [(0.0, "a Ray actor is there: other"), (0.5, "another Ray application")]
)
def test_an_actor_of_another_application_keeps_the_node_on(node: Node, cpus: float, said: str) -> None:
    import ray

    class Other:
        def ready(self) -> bool:
            return True

    actor = ray.remote(Other).options(**on(node, num_cpus=cpus, name="other")).remote()
    try:
        assert ray.get(actor.ready.remote(), timeout=60)
        assert closing.close(node, ray_private).startswith(said)
    finally:
        ray.kill(actor)


def test_a_node_that_has_gone_is_not_closed(node: Node) -> None:
    assert closing.close(Node("0" * 56, "t4", 2), ray_private) == "its node has just gone"


def test_a_new_service_opens_what_an_earlier_one_closed_but_for_machines_that_leave(node: Node) -> None:
    assert closing.close(node, ray_private) == ""
    closing.reopen_all_but(frozenset({node.id}))
    assert closing._find(closing.NAME + node.id) is not None
    closing.reopen_all_but(frozenset())
    assert closing._find(closing.NAME + node.id) is None
