"""Any trace can be studied, and its sums are those of its jobs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from coadapt.simulator.study.as_json import as_json
from coadapt.simulator.study.jobs import StudiedJobs
from coadapt.simulator.study.study import study
from coadapt.simulator.study.summary import summary
from coadapt.simulator.traces.workload import TraceJob, Workload

from tests.support.studies import POOR, a_month, whole


@pytest.mark.parametrize("jobs", POOR.values(), ids=POOR.keys())
@pytest.mark.parametrize("began", [None, "2020-02-29 23:59:59"])
def test_a_poor_trace_is_studied_and_nothing_is_made_up(jobs: list[TraceJob], began: str | None) -> None:
    found = whole(jobs, began=began)
    assert len(found.jobs) == len(jobs)
    assert len(found.implications) == 7
    assert all("nan" not in told for _, told in summary(found))
    known = [job.gpus * job.duration_s for job in jobs if job.duration_s is not None]
    assert found.gpu_s == pytest.approx(sum(known))
    assert math.isnan(found.use) == (not known)
    assert json.loads(json.dumps(as_json(found), allow_nan=False))["jobs"] == len(jobs)


def test_use_is_gpu_time_in_the_window_over_its_length() -> None:
    found = whole([TraceJob("a", 0.0, 4, 50.0), TraceJob("b", 50.0, 2, 50.0)], {"": 8})
    assert found.use == pytest.approx(3.0)
    assert found.utilisation == pytest.approx(3 / 8)
    assert found.course is not None
    assert (found.course.use * found.course.bins.width_s).sum() == pytest.approx(found.gpu_s)


def test_the_document_has_each_part_and_null_for_what_is_not_known() -> None:
    document = as_json(whole(a_month(30, waits=False), {"big": 64, "small": 64}))
    assert document["use_is_demand"] is True
    assert document["lengths"]["jobs"] == 1200
    assert len(document["daily"]["submissions"]["mean"]) == 24
    assert sum(document["sizes"]["jobs"]) == 1200
    assert document["final_states"]["names"][0] == "completed"
    assert document["virtual_clusters"]["mean_wait_s"] == [None, None]
    assert document["implications"][6]["verdict"] == "cannot be told"
    assert document["implications"][3]["claims"][0]["verdict"] == "holds"
    assert np.isfinite(document["course"]["use"]).all()


def test_no_jobs_are_no_trace() -> None:
    with pytest.raises(ValueError, match="trace: has no jobs to study"):
        study(StudiedJobs.of_trace(Workload.of([])))
