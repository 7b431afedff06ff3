"""What tests of executors share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.emulated_cluster import NAMESPACE, EmulatedCluster
from tests.support.simulated_workers import World


@pytest.fixture
def world() -> World:
    """Return an executor without Ray, whose workers are simulated."""
    return World()


@pytest.fixture(scope="module")
def service(emulated_cluster: EmulatedCluster) -> Iterator[Any]:
    """An actor that executors take for the scheduler service."""
    import ray

    from tests.support.executor_service import NAME, Service

    options = {"name": NAME, "namespace": NAMESPACE, "max_concurrency": 8, "num_cpus": 0}
    actor = ray.remote(Service).options(**options).remote()
    yield actor
    ray.kill(actor)
