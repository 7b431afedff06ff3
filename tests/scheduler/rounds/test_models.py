"""A job's goodput model is that of its newest measurements, however little of it was made again."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
from coadapt.core.job import JobSpec, JobState
from coadapt.core.reports import JobInfo, StepRow
from coadapt.estimators.goodput import ConfigurationArrays, goodput_matrix
from coadapt.estimators.measurements import Measurements
from coadapt.scheduler.changes.profile_reuse import kept
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.rounds.models import ModelCache

TYPES = ("a100", "t4")
SPEC = JobSpec.model_validate({"name": "a", "script": "t.py", "training": {"max_batch_size": 512}})
NODES = np.array([1, 1, 1, 2])
WHERE = ConfigurationArrays(TYPES, np.array([4, 4]), np.array([0, 1, 1, 1]), NODES, np.array([1, 1, 4, 8]))


def measured() -> Measurements:
    """Return step times that a larger batch makes better use of."""
    rows = [StepRow(1, 1, size, 0, 0.2 + 0.001 * size, 0.0, 5) for size in (16, 32, 64, 128)]
    info = JobInfo("net", 32, 1_000_000, 50_000, adam_type=False, whole_batches=False)
    return Measurements().with_info(info).with_rows("a100", rows).with_rows("t4", rows)


def goodput(cache: ModelCache, measurements: Measurements) -> np.ndarray:
    job = JobRecord("a-1", 1, SPEC, JobState(submitted_s=0.0), measurements=measurements)
    found = cache.models([job], TYPES, _raise)[job.id]
    return goodput_matrix([found], WHERE)


def _raise(job_id: str, error: Exception) -> None:
    raise error


def sent(stored: Measurements, measurements: Measurements) -> Measurements:
    """Return what the record holds once an executor in another process has sent its measurements."""
    found = kept(pickle.loads(pickle.dumps(measurements)), stored)
    assert found is not None
    return found


def test_after_reports_of_noise_and_of_step_times_it_is_as_if_made_anew() -> None:
    cache, stored = ModelCache(), measured()
    rows = [StepRow(1, 4, 16, 0, 0.3, 0.05, 20)]
    values = [goodput(cache, stored)]
    for noise, new in ((100.0, []), (5_000.0, []), (5_000.0, rows), (80.0, [])):
        stored = sent(stored, replace(stored, grad_sqr=1.0, grad_var=noise).with_rows("t4", new))
        values.append(goodput(cache, stored))
        np.testing.assert_array_equal(values[-1], goodput(ModelCache(), stored))
    assert not np.array_equal(values[1], values[2])
    assert not np.array_equal(values[2], values[3])


def test_memory_that_ran_out_counts_although_no_step_was_measured() -> None:
    cache, stored = ModelCache(), measured()
    before = goodput(cache, stored)
    stored = sent(stored, replace(stored, largest_local_bsz={"a100": 1, "t4": 1}))
    assert (goodput(cache, stored) < before).any()
    np.testing.assert_array_equal(goodput(cache, stored), goodput(ModelCache(), stored))


def test_a_model_is_made_when_a_report_comes_and_the_round_takes_it_as_it_is() -> None:
    cache, job = ModelCache(), JobRecord("a-1", 1, SPEC, JobState(submitted_s=0.0), measurements=measured())
    (first,) = cache.models([job], TYPES, _raise).values()
    job = replace(job, measurements=replace(measured(), grad_sqr=1.0, grad_var=900.0))
    cache.refresh(job, TYPES, _raise)
    made = cache._known[job.id][2]
    assert made is not first
    assert cache.models([job], TYPES, _raise) == {job.id: made}


def test_measurements_that_no_model_fits_are_told_of_once_and_jobs_that_left_are_forgotten() -> None:
    cache, told = ModelCache(), list[str]()
    broken = replace(measured(), largest_local_bsz={})
    job = JobRecord("a-1", 1, SPEC, JobState(submitted_s=0.0), measurements=broken)
    for _ in range(2):
        cache.refresh(job, TYPES, lambda job_id, error: told.append(job_id))
        assert cache.models([job], TYPES, lambda job_id, error: told.append(job_id)) == {job.id: None}
    assert told == ["a-1"]
    assert cache.models([], TYPES, _raise) == {}
    assert not cache._known
