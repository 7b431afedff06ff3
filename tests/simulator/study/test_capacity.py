"""The GPUs of a cluster, and the jobs that some of them may serve."""

from __future__ import annotations

import pytest
from coadapt.simulator.study.capacity import Capacity, of_cluster, of_run, served
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.workload import TraceJob

from tests.support.runs import saved
from tests.support.studies import studied

JOBS = [TraceJob("1", 0.0, 1, 9.0, virtual_cluster="a"), TraceJob("2", 0.0, 1, 9.0, virtual_cluster="b"),
        TraceJob("3", 0.0, 1, 9.0)]  # fmt: skip


def test_gpus_are_counted_in_all_and_by_virtual_cluster() -> None:
    assert of_cluster(read_cluster("2x t4:4, 1x a100:8")) == Capacity(16, {})
    assert of_cluster(read_cluster("2x t4:4@a, 1x a100:8@b")) == Capacity(16, {"a": 8, "b": 8})
    assert of_run(saved(10.0, cluster="3x t4:2").outcome) == Capacity(6, {})


@pytest.mark.parametrize(
    ("by_name", "expected"),
    [({"a": 8}, [True, False, False]), ({"a": 8, "b": 1}, [True, True, False]), ({}, [True, True, True])],
)
def test_jobs_of_virtual_clusters_with_gpus_are_served(by_name: dict[str, int], expected: list[bool]) -> None:
    assert served(studied(JOBS), Capacity(8, by_name)).tolist() == expected


def test_a_trace_without_virtual_clusters_is_served_by_all() -> None:
    assert served(studied(JOBS[2:]), Capacity(8, {"a": 8})).tolist() == [True]
