"""What a profile run has measured of the input says how fast a job is with CPUs and memory."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from coadapt.core.reports import InputRow, MeasuredInput, ProfileProgress, Progress, Report, StepRow
from coadapt.estimators.measurements import Measurements
from coadapt.estimators.sensitivity.choices import Share, best_case
from coadapt.estimators.sensitivity.of_input import GIB, sensitivity_of

ROWS = (InputRow(12, 1200.0), InputRow(1, 100.0), InputRow(6, 600.0))
KEPT = MeasuredInput(ROWS, 12, GIB / 100, 250.0, 2.0, done=True)  # 1 % of a GiB each


def test_without_measurements_nothing_is_said() -> None:
    assert sensitivity_of(None, 10) is None
    assert sensitivity_of(MeasuredInput(), 10) is None


def test_speed_follows_cpus_and_memory() -> None:
    found = sensitivity_of(KEPT, 1000)  # 10 GiB
    assert found is not None
    assert found.knows_memory
    assert float(found.rate(1, 6.0, 12.0)) == pytest.approx(600.0), "all samples are kept"
    assert float(found.rate(1, 6.0, 2.0)) == pytest.approx(250.0), "none is"
    assert float(found.rate(1, 6.0, 7.0)) == pytest.approx(500.0), "half of them are"
    assert float(found.rate(1, 6.0, 1.0)) == 0.0, "the process does not run"
    assert float(found.rate(2, 12.0, 14.0)) == pytest.approx(1200.0), "two GPUs"


@pytest.mark.parametrize("without", [{"sample_bytes": 0.0}, {"stored_per_s": 0.0}])
def test_without_a_cache_or_with_a_fast_storage_memory_is_no_choice(without: dict[str, float]) -> None:
    found = sensitivity_of(MeasuredInput(**{**vars(KEPT), **without}), 1000)
    assert found is not None
    assert not found.knows_memory


def test_measurements_keep_the_input_for_other_runs_of_the_same_script_only() -> None:
    known = Measurements().with_profile("t4", ProfileProgress(input=KEPT))
    again = Measurements.from_json(known.to_json())
    assert again.input == KEPT
    assert known.of_another_run(same_script=True).input == KEPT
    assert known.of_another_run().input is None
    assert not known.same_row(Measurements(), "")
    assert Measurements().completed_by(known).input == KEPT


def test_progress_goes_on_in_the_next_process() -> None:
    progress = ProfileProgress(input=KEPT)
    assert ProfileProgress.from_json(progress.to_json()) == progress
    assert MeasuredInput.of_dict({**json.loads(json.dumps(asdict(KEPT))), "later": 1}) == KEPT
    assert ProfileProgress.from_json('{"rows": [], "failed": [], "floor": 1}').input is None


def trained(workers: int, step_s: float, wait_s: float, count: int = 100) -> Report:
    rows = [StepRow(1, 1, 10, 1, step_s, 0.0, count, wait_s)]
    progress = Progress(0, None, 0.0, count, 20 * count, 20.0 * count)
    return Report(0, "t4", 1, 1, rows, None, None, 20, 10, 1, 0.1, 1.0, progress, loader_workers=workers)


def test_a_training_with_more_cpus_than_were_measured_shows_the_rate_with_them() -> None:
    known = Measurements().with_profile("t4", ProfileProgress(input=MeasuredInput(ROWS[1:], 6, done=True)))
    more = known.with_report(trained(12, 0.02, 0.01)).input
    assert more is not None
    assert (more.rates[12], more.most) == (pytest.approx(1000.0), 12)
    found = sensitivity_of(more, None)
    assert found is not None
    assert float(found.rate(1, 12.0, 1.0)) == pytest.approx(1000.0)


@pytest.mark.parametrize("report", [trained(6, 0.02, 0.01), trained(0, 0.02, 0.01), trained(12, 0.02, 0.01, 20)])
def test_a_training_on_known_or_changing_cpus_or_of_a_moment_shows_nothing_new(report: Report) -> None:
    measured = MeasuredInput(ROWS[1:], 6, done=True)
    known = Measurements().with_profile("t4", ProfileProgress(input=measured))
    assert known.with_report(report).input is measured
    assert known.with_report(trained(12, 0.02, 0.01), alone=False).input is measured


def test_steps_are_those_of_the_gpu_alone_once_the_input_is_measured() -> None:
    rows = (StepRow(1, 1, 10, 0, 0.5, 0.0, 5, 0.4),)
    assert Measurements().with_rows("t4", rows).profiles["t4"].step_time_s == pytest.approx([0.5])
    both = Measurements().with_profile("t4", ProfileProgress(rows, input=KEPT))
    assert both.profiles["t4"].step_time_s == pytest.approx([0.1])


def test_of_two_jobs_of_a_script_the_one_that_had_more_cpus_tells_of_its_input() -> None:
    rows = (StepRow(1, 1, 10, 0, 0.5, 0.0, 5),)
    few = Measurements().with_profile("t4", ProfileProgress(rows, input=MeasuredInput(ROWS[1:], 6)))
    many = Measurements().with_profile("t4", ProfileProgress(rows, input=KEPT))
    assert few.completed_by(many).input is many.completed_by(few).input is KEPT


def test_rates_that_only_noise_tells_apart_do_not_make_a_job_ask_for_more_cpus() -> None:
    rows = (InputRow(12, 1010.0), InputRow(9, 990.0), InputRow(6, 600.0), InputRow(1, 100.0))
    found = sensitivity_of(MeasuredInput(rows, 12, done=True), None)
    assert found is not None
    share = Share(3.0, 8.0, 12.0, 32.0)
    assert best_case(found, 1, share) == (9.0, 8.0)
    assert float(found.rate(1, 9.0, 8.0)) == pytest.approx(1000.0)
