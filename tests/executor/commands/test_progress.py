"""Reports of a command say how far it is, and how long a step takes at each size."""

from __future__ import annotations

import pytest
from coadapt.core.job import JobSpec
from coadapt.estimators.measurements import EVERY_TYPE, Measurements
from coadapt.executor.commands.progress import NOMINAL_STEPS, WARM_UP_S, CommandProgress, Group
from coadapt.executor.protocol.command_events import Status

ONE, TWO = Group(1, "a100", 1, 1), Group(2, "a100", 1, 2)


def ran(progress: CommandProgress, group: Group, per_s: float, seconds: int, start: float = 0.0) -> None:
    """Have a program say each second which part of all it has done."""
    for second in range(seconds + 1):
        done = start + per_s * second
        progress.take(Status(1000.0 * group.generation + second, fraction=done), group.generation)


def test_a_step_is_timed_from_the_warm_up_on_in_parts_of_the_whole() -> None:
    progress = CommandProgress()
    ran(progress, ONE, 0.001, 30)
    report = progress.report(ONE)
    row = report.rows[0]
    assert (row.nodes, row.replicas, row.local_bsz) == (1, 1, progress.step_samples)
    assert row.step_time_s == pytest.approx(1 / (0.001 * NOMINAL_STEPS))
    assert row.count == round((30 - WARM_UP_S) * 0.001 * NOMINAL_STEPS)
    assert report.progress.fraction == pytest.approx(0.03)
    assert progress.report(ONE).rows == (), "nothing was said since"


def test_a_start_at_another_size_is_timed_by_itself() -> None:
    progress = CommandProgress()
    ran(progress, ONE, 0.001, 30)
    progress.report(ONE)
    ran(progress, TWO, 0.0019, 30, start=0.02)
    (row,) = progress.report(TWO).rows
    assert (row.replicas, row.local_bsz) == (2, progress.step_samples // 2)
    assert row.step_time_s == pytest.approx(1 / (0.0019 * NOMINAL_STEPS))


def test_a_program_that_counts_steps_without_an_end_is_timed_by_these() -> None:
    progress = CommandProgress(batch_size=64)
    for second in range(11):
        progress.take(Status(float(second), step=5 * second), 1)
    report = progress.report(ONE)
    assert report.rows[0].step_time_s == pytest.approx(0.2)
    assert (report.progress.steps, report.progress.fraction, report.batch_size) == (50, 0.0, 64)


def test_the_job_file_may_say_how_many_steps_there_are() -> None:
    progress = CommandProgress(total_steps=200)
    progress.take(Status(0.0, step=50), 1)
    assert progress.report(ONE).progress.fraction == 0.25


def test_what_an_earlier_start_says_late_changes_nothing() -> None:
    progress = CommandProgress()
    progress.take(Status(0.0, fraction=0.5, metrics={"loss": 1.0}), 2)
    progress.take(Status(1.0, fraction=0.9, metrics={"loss": 9.0}), 1)
    assert progress.report(TWO).progress.fraction == 0.5
    assert progress.metrics == {"loss": 1.0}


def test_a_program_that_goes_back_to_its_checkpoint_is_not_timed_over_that() -> None:
    progress = CommandProgress()
    ran(progress, ONE, 0.01, 10)
    progress.take(Status(1011.0, fraction=0.05), 1)
    progress.take(Status(1021.0, fraction=0.15), 1)
    row = progress.report(ONE).rows[0]
    assert row.step_time_s == pytest.approx(10 / (0.1 * NOMINAL_STEPS))


def test_a_status_may_tell_only_what_is_new() -> None:
    progress = CommandProgress()
    progress.take(Status(0.0, step=10, steps=100, fraction=0.1), 1)
    progress.take(Status(1.0, metrics={"eval": 0.5}), 1)
    progress.take(Status(2.0, step=20), 1)
    report = progress.report(ONE)
    assert (report.progress.fraction, report.progress.steps, report.metrics) == (0.2, 20, {"eval": 0.5})


def test_models_see_the_speed_that_was_told_at_each_size() -> None:
    spec = JobSpec(name="a", command=["python", "t.py"], sizes=[1, 2, 4])
    progress = CommandProgress()
    measured = Measurements().with_info(progress.info("f"))
    ran(progress, ONE, 0.001, 60)
    measured = measured.with_report(progress.report(ONE))
    ran(progress, TWO, 0.0018, 60)
    measured = measured.with_report(progress.report(TWO))
    model = measured.job_model(spec.training, {EVERY_TYPE: 1})
    fit = model.throughput["a100"]
    assert fit.max_replicas_measured == 2
    one, two, four = (float(fit.params.step_time_s(1, n, progress.step_samples // n)) for n in (1, 2, 4))
    assert one / two == pytest.approx(1.8, rel=0.05)
    assert one / 4 < four < two, "a size that was not tried is taken to be faster, but not by more than its GPUs"


@pytest.mark.parametrize("first", [1, 2])
def test_until_a_second_size_is_measured_more_gpus_are_taken_to_be_as_much_faster(first: int) -> None:
    """Otherwise no program would ever be tried at another size."""
    spec = JobSpec(name="a", command=["python", "t.py"], sizes=[1, 2, 4, 8])
    progress, group = CommandProgress(), Group(1, "t4", 1, first)
    ran(progress, group, 0.001, 60)
    measured = Measurements().with_info(progress.info("f")).with_report(progress.report(group))
    params = measured.job_model(spec.training, {EVERY_TYPE: 1}).throughput["t4"].params
    at = {n: float(params.step_time_s(1, n, progress.step_samples // n)) for n in (1, 2, 4)}
    assert at[first] / at[2 * first] == pytest.approx(2.0, rel=0.05)
    assert at[first] == pytest.approx(1 / (0.001 * NOMINAL_STEPS), rel=0.05)
