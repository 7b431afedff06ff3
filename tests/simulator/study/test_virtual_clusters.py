"""Virtual clusters add up to the cluster, and a lack in one beside idle GPUs in another is seen."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.simulator.study.capacity import Capacity
from coadapt.simulator.study.jobs import StudiedJobs
from coadapt.simulator.study.time_bins import Bins
from coadapt.simulator.study.virtual_clusters import Imbalance, VirtualClusters, virtual_clusters
from coadapt.simulator.traces.workload import TraceJob
from hypothesis import given
from hypothesis import strategies as st

from tests.support.studies import HOUR_S, studied

FOUR_HOURS = Bins(np.arange(5) * HOUR_S)


def found_of(jobs: StudiedJobs, **gpus: int) -> VirtualClusters:
    found = virtual_clusters(jobs, FOUR_HOURS, Capacity(sum(gpus.values()), gpus) if gpus else None)
    assert found is not None
    return found


def imbalance(jobs: list[TraceJob], **gpus: int) -> Imbalance:
    found = found_of(studied(jobs), **gpus).imbalance
    assert found is not None
    return found


@given(
    st.lists(
        st.tuples(st.floats(0, 4 * HOUR_S), st.sampled_from("abc"), st.integers(1, 8), st.floats(0, 9e4)),
        min_size=1,
    )
)
def test_use_and_jobs_add_up(rows: list[tuple[float, str, int, float]]) -> None:
    jobs = studied([TraceJob(str(i), t, n, s, virtual_cluster=vc) for i, (t, vc, n, s) in enumerate(sorted(rows))])
    found = found_of(jobs)
    whole = FOUR_HOURS.gpu_s(jobs.held)
    assert found.use.sum() == pytest.approx(whole.sum() / (4 * HOUR_S), abs=1e-6)
    np.testing.assert_allclose(np.sum(found.hours, axis=0), whole / HOUR_S, atol=1e-6)
    assert found.jobs.sum() == len(rows)
    assert found.gpu_s.sum() == pytest.approx(np.nansum(jobs.gpu_s))


# a wants 6 GPUs for two hours and has 4; b wants 1 for four hours and has 4.
LACK = [
    TraceJob("1", 0.0, 6, 2 * HOUR_S, virtual_cluster="a"),
    TraceJob("2", 0.0, 1, 4 * HOUR_S, virtual_cluster="b"),
]


def test_gpus_that_are_lacked_and_idle_at_once_are_counted() -> None:
    assert imbalance(LACK, a=4, b=4) == Imbalance(lacking=0.5, at_once=0.5, gpus=1.0)
    assert imbalance(LACK, a=4, b=1) == Imbalance(lacking=0.5, at_once=0.0, gpus=0.0)
    assert imbalance(LACK, a=6, b=4) == Imbalance(lacking=0.0, at_once=0.0, gpus=0.0)


def test_a_virtual_cluster_without_jobs_idles_too() -> None:
    assert imbalance(LACK, a=4, b=1, c=8).at_once == 0.5


def test_jobs_that_wait_want_their_gpus() -> None:
    waits = TraceJob("1", 0.0, 4, HOUR_S, virtual_cluster="a", waited_s=HOUR_S)
    runs = TraceJob("0", 0.0, 4, HOUR_S, virtual_cluster="a", waited_s=0.0)
    assert imbalance([runs, waits, LACK[1]], a=4, b=4).lacking == 0.25


def test_users_of_a_virtual_cluster_are_counted_once() -> None:
    jobs = studied([TraceJob(str(i), 0.0, 1, 9.0, virtual_cluster="a", user=f"u{i % 2}") for i in range(5)])
    assert found_of(jobs).users.tolist() == [2]


def test_a_trace_without_virtual_clusters_has_none() -> None:
    assert virtual_clusters(studied([TraceJob("1", 0.0, 1, 9.0)]), FOUR_HOURS, None) is None
