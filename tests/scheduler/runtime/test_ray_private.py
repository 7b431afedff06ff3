"""What Ray does not promise is there as this version has it, and nothing else of Ray's inside is called."""

from __future__ import annotations

import inspect
import re

import pytest
import ray
from coadapt.scheduler.runtime import ray_private

from tests.support.emulated_cluster import EmulatedCluster
from tests.support.layout import ROOT, sources

# A private module of Ray, or a class of its C++ part. Ours have names such as `make_private`.
PRIVATE = re.compile(r"\bray\._(?!_version__)|\bray\.\w+\._private|\bGcsClient\b|from ray\.(_|core\.generated)")


def test_only_one_module_calls_what_ray_keeps_to_itself() -> None:
    found = {path.as_posix() for path in sources() if PRIVATE.search((ROOT / path).read_text())}
    assert found == {"scheduler/runtime/ray_private.py"}


def test_the_names_are_there_with_the_arguments_that_are_given() -> None:
    state = ray._private.state
    assert list(inspect.signature(state.state.get_draining_nodes).parameters) == []
    assert all(one.default is None for one in inspect.signature(state.actors).parameters.values())
    assert list(inspect.signature(state.available_resources_per_node).parameters) == []
    assert isinstance(ray._private.worker._worker_logs_enabled, bool)


@pytest.mark.live
def test_they_answer_in_the_shape_that_is_read(emulated_cluster: EmulatedCluster) -> None:
    node = emulated_cluster.nodes["t4"]
    assert ray_private.free_on(node)["memory"] > 0.0
    actor = (
        ray.remote(_Nobody).options(num_cpus=0, name="somebody", label_selector={"ray.io/node-id": node}).remote()
    )
    assert ray.get(actor.node.remote()) == node
    assert "somebody" in ray_private.actors_on(node)
    ray.kill(actor)
    assert node not in ray_private.draining_nodes()


class _Nobody:
    def node(self) -> str:
        return ray.get_runtime_context().get_node_id()
