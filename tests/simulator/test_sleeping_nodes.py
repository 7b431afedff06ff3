"""Promises: the service `energy` lets nodes of a simulated cluster sleep, and jobs wake them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.node_states import PowerEvent
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.run import Simulation
from coadapt.simulator.traces.cluster_file import SimulatedCluster, cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload

POOLS = SimulatedCluster(
    {name: replace(cluster_of("3x t4:8", f"{name}-", name), pool=name) for name in ("lab", "ward")}
)
NIGHTLY = Workload.of(
    TraceJob(
        id=f"{pool}{day}", submit_s=86_400.0 * day + 3600 * at, gpus=16, duration_s=7200.0, virtual_cluster=pool
    )
    for day in range(4)
    for at, pool in ((1, "lab"), (9, "ward"))
)


def run_of(services: dict[str, dict[str, object]], boot_s: float = 300.0) -> Simulation:
    under = Conditions(timing=Timing(events=True), services=services, boot_s=boot_s)
    return simulation(NIGHTLY, POOLS, "fifo", {}, source_of(False, None, POOLS), under)


def test_each_pool_sleeps_between_its_jobs_and_wakes_its_own_nodes() -> None:
    made = run_of({"energy": {"rule": "recent", "history_s": 3600.0, "buffer": 0}})
    found = made.run()
    assert len(made.engines) == 2
    for engine in made.engines:
        events = [change.event for change in engine.nodes.log]
        assert events.count(PowerEvent.WAKES) >= 6  # two nodes on each of three days
        assert events.count(PowerEvent.IS_BACK) == events.count(PowerEvent.WAKES)
    assert found.queueing_s.max() == pytest.approx(300.0)
    assert np.median(found.queueing_s) == pytest.approx(300.0)


def test_without_the_service_nothing_sleeps() -> None:
    made = run_of({})
    assert made.run().queueing_s.max() == 0
    assert not any(engine.nodes.log for engine in made.engines)


def test_a_boot_takes_as_long_as_it_is_said_to() -> None:
    found = run_of({"energy": {"rule": "recent", "history_s": 3600.0, "buffer": 0}}, boot_s=900.0).run()
    assert found.queueing_s.max() == pytest.approx(900.0)
