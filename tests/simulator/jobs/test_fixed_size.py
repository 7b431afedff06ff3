"""Jobs of a fixed size ask for their GPUs, start for nothing, and pay for each restart."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.training_config import Adaptivity
from coadapt.simulator.jobs.fixed_size import FixedSizeWorld, rigid_spec
from coadapt.simulator.traces.workload import TraceJob, Workload

HERE, THERE = (Placement("t4", (NodeShare(node, 1),)) for node in ("n0", "n1"))


@pytest.mark.parametrize("gpus", [1, 64, 100])
def test_a_job_asks_for_exactly_its_gpus_and_for_no_cpus(gpus: int) -> None:
    spec = rigid_spec(gpus)
    assert (spec.resources.gpus, spec.resources.cpus_per_gpu) == (gpus, 0.0)
    assert spec.training.adaptivity is Adaptivity.RIGID
    assert spec.resources.gpu_types is None


def test_equal_jobs_share_a_spec_that_says_where_they_run_and_whether_they_may_be_stopped() -> None:
    assert rigid_spec(4, False, ("t4",)) is rigid_spec(4, False, ("t4",))
    assert rigid_spec(4, False, ("t4",)).resources.gpu_types == ["t4"]
    workload = Workload.of([TraceJob("a", 0.0, 2, 10.0), TraceJob("b", 0.0, 3, 10.0, preemptible=False)])
    world = FixedSizeWorld(workload)
    found = [world.spec(job) for job in (0, 1)]
    assert [(spec.resources.gpus, spec.preemptible) for spec in found] == [(2, True), (3, False)]


def test_the_first_start_is_free_and_others_cost_by_the_gpus_of_the_job() -> None:
    workload = Workload.of([TraceJob("a", 0.0, 1, 10.0), TraceJob("b", 0.0, 4, 10.0)])
    world = FixedSizeWorld(workload, lambda gpus: 10.0 * gpus)
    assert world.pause_s(1, None, HERE, 0.0, first=True) == 0.0
    assert [world.pause_s(job, HERE, THERE, 0.0, first=False) for job in (0, 1)] == [10.0, 40.0]
    assert [world.told.restart_cost_s(job) for job in (0, 1)] == [10.0, 40.0]
    assert FixedSizeWorld(workload).restart_s(0) == 30.0


def test_a_job_ends_at_its_first_boundary() -> None:
    world = FixedSizeWorld(Workload.of([TraceJob("a", 0.0, 1, 10.0)]))
    rate, progress = world.crosses(np.array([0]), [HERE], np.array([10.0]))
    assert np.isnan(rate).all()
    assert progress.tolist() == [10.0]
