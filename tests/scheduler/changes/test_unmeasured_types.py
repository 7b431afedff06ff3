"""Which jobs are measured on a GPU type that joins the cluster, and on which no more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.cluster import Cluster
from coadapt.core.job import ResourceRequest
from coadapt.executor.protocol.job_events import Released
from coadapt.scheduler.changes.reactions import give_up_profile, react
from coadapt.scheduler.changes.unmeasured_types import with_new_types
from coadapt.scheduler.views.job_views import job_details

from tests.support.records import CLUSTER, SPEC, A, P, measured, running, running_and_measured


@pytest.mark.parametrize(
    "changes", [{"profile": False}, {"preemptible": False}, {"resources": ResourceRequest(gpu_types=["t4"])}]
)
def test_jobs_that_cannot_use_a_new_type_are_not_measured_on_it(changes: dict[str, object]) -> None:
    found = replace(running(A), spec=SPEC.model_copy(update=changes), measurements=measured("t4"))
    assert "a100" not in {run.gpu_type for run in with_new_types(found, CLUSTER).profiles}


def test_a_type_that_failed_is_not_tried_again_and_one_that_left_is_not_waited_for() -> None:
    failed = give_up_profile(running_and_measured(A), "a100", "too slow", 9.0).job
    freed = react(failed, Released(1, (P,)), 10.0).job
    assert with_new_types(freed, CLUSTER) is freed
    assert job_details(freed, [])["profiles"]["a100"] == "could not be measured: too slow"
    waiting = with_new_types(replace(running(A), measurements=measured("t4")), CLUSTER)
    left = with_new_types(waiting, Cluster((CLUSTER.nodes[1],)))
    assert [run.gpu_type for run in left.profiles] == ["t4"]
    assert [run.gpu_type for run in with_new_types(left, CLUSTER).profiles] == ["t4", "a100"]
