"""One small local Ray cluster for all tests that need Ray: a head and two emulated GPU nodes, each leased once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support.emulated_cluster import NAMESPACE, EmulatedCluster

# Before ray is imported anywhere: no token files, no statistics, no warning about GPUs that are only emulated.
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
# Before transformers is imported anywhere: nothing is downloaded.
os.environ["HF_HUB_OFFLINE"] = "1"
# Before torch and numpy are: several test processes share the cores, and threads of one would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run, unless asked for new ones: `pytest --hypothesis-profile new`.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None)
settings.load_profile("fixed")

ROOT = Path(__file__).resolve().parent
# The files that compute longest. They begin first, so that none is the last that all others wait for.
LONG_FILES = (
    "executor/training/sharding/test_sharded_runs.py",
    "integrations/test_transformers.py",
    "integrations/test_lightning.py",
    "simulator/test_resume.py",
    "executor/training/gradients/test_gradients.py",
    "cli/test_examples.py",
    "cli/test_sweep.py",
    "executor/test_reconciler.py",
    "executor/test_live_protocol.py",
    "executor/training/test_standalone.py",
    "executor/training/sessions/test_larger_steps.py",
    "executor/training/sessions/test_regroup.py",
    "integrations/test_accelerate.py",
    "integrations/test_ray_train.py",
    "cli/test_report.py",
    "cli/test_simulate.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests of long files first."""
    places = {ROOT / name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


STORE_BYTES = 80 * 2**20
# A lost node is noticed within a second instead of a quarter of a minute.
QUICK_HEALTH_CHECKS = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 300,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
}


@pytest.fixture(scope="session")
def emulated_cluster() -> Iterator[EmulatedCluster]:
    import ray
    from ray.cluster_utils import Cluster
    from ray.util.placement_group import placement_group

    with tempfile.TemporaryDirectory(prefix="ca-", dir="/tmp") as folder:
        os.environ["RAY_TMPDIR"] = folder
        common = {"object_store_memory": STORE_BYTES, "include_dashboard": False}
        cluster = Cluster(
            initialize_head=True,
            head_node_args={**common, "num_cpus": 2, "num_gpus": 0, "_system_config": QUICK_HEALTH_CHECKS},
        )
        try:
            for gpu_type in ("a100", "t4"):
                labels = {"coadapt.io/gpu-type": gpu_type, "coadapt.io/emulated": "true"}
                cluster.add_node(**common, num_cpus=2, num_gpus=2, labels=labels)
            ray.init(address=cluster.address, namespace=NAMESPACE, log_to_driver=False)
            nodes = {
                node["Labels"]["coadapt.io/gpu-type"]: node["NodeID"]
                for node in ray.nodes()
                if "coadapt.io/gpu-type" in node["Labels"]
            }
            leases = {
                gpu_type: placement_group(
                    [{"GPU": 2, "CPU": 1.5}],
                    strategy="STRICT_PACK",
                    bundle_label_selector=[{"ray.io/node-id": node_id}],
                )
                for gpu_type, node_id in nodes.items()
            }
            for lease in leases.values():
                assert lease.wait(60)
            yield EmulatedCluster(cluster, nodes, {t: lease.id.hex() for t, lease in leases.items()})
        finally:
            ray.shutdown()
            cluster.shutdown()
            os.environ.pop("RAY_TMPDIR")


@pytest.fixture(scope="module")
def service(emulated_cluster: EmulatedCluster) -> Iterator[Any]:
    """An actor that executors take for the scheduler service."""
    import ray

    from tests.support.executor_service import NAME, Service

    options = {"name": NAME, "namespace": NAMESPACE, "max_concurrency": 8, "num_cpus": 0}
    actor = ray.remote(Service).options(**options).remote()
    yield actor
    ray.kill(actor)
