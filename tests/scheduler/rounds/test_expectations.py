"""What is expected of the jobs of a round: by what they reported, and by earlier runs of their script."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.expected import UNKNOWN, Expected, ExpectedSource
from coadapt.core.job import ResourceRequest
from coadapt.core.log_normal import LogNormal
from coadapt.core.reports import InputRow, JobInfo, MeasuredInput
from coadapt.estimators.curves.curve import Curve, MetricCurve
from coadapt.estimators.measurements import Measurements
from coadapt.estimators.run_lengths import Lengths, RunLengths
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.rounds.expectations import NO_LENGTHS, expectations, work_of

from tests.support.records import SPEC, job
from tests.support.rounds import model

CLUSTER = Cluster((Node("n1", "a", 4), Node("n2", "b", 4, pool="research")))
ASKS = Measurements().with_info(JobInfo("net", 32, 1000, 4096, adam_type=False, asked_samples=10_000.0))
HALF_DONE = {"progress_samples": 5_000.0, "fraction": 0.5}


def expected(found: JobRecord, lengths: RunLengths = NO_LENGTHS, trained_s: float = 0.0) -> Expected:
    """Return what is expected of a job that does 100 samples/s on one GPU of type a, and 400 on b."""
    models = {found.id: model({"a": 100.0, "b": 400.0})}
    return expectations([found], models, CLUSTER, lengths, lambda job_id: trained_s)[found.id]


def test_a_job_needs_what_it_has_left_at_the_speed_of_its_pool() -> None:
    of_all = job(measurements=ASKS, report=HALF_DONE)
    in_pool = replace(of_all, spec=SPEC.model_copy(update={"pool": "research"}))
    assert expected(of_all).mean_s == pytest.approx(50.0, rel=0.02)
    assert expected(in_pool).mean_s == pytest.approx(12.5, rel=0.02)


def test_the_speed_is_that_of_the_fewest_gpus_that_the_job_asks_for() -> None:
    wide = SPEC.model_copy(update={"resources": ResourceRequest(min_gpus=4, max_gpus=8)})
    assert expected(job(measurements=ASKS, report=HALF_DONE, spec=wide)).mean_s < 25.0


def test_of_a_job_without_model_report_or_earlier_runs_nothing_is_known() -> None:
    assert expectations([job()], {}, CLUSTER, NO_LENGTHS, lambda job_id: 0.0) == {"j-1": UNKNOWN}


def test_earlier_runs_of_the_script_say_how_long_a_new_job_takes() -> None:
    lengths = RunLengths({("", "script"): Lengths(LogNormal(600.0, 0.3))})
    new = job(script_key="script")
    assert expected(new, lengths).source is ExpectedSource.EARLIER_RUNS
    assert expected(new, lengths, trained_s=300.0).mean_s < expected(new, lengths).mean_s
    assert expected(job(), lengths) == UNKNOWN, "a job without a key has no earlier runs"


def test_a_job_with_a_target_may_end_sooner_than_its_work() -> None:
    target = SPEC.training.model_validate({"target": {"metric": "accuracy", "at_least": 0.9}})
    with_target = job(spec=SPEC.model_copy(update={"training": target}))
    assert [work_of(found, 0.0).may_end_sooner for found in (job(), with_target)] == [False, True]


def test_a_job_that_waits_for_its_input_takes_as_long_as_its_share_of_cpus_makes_it() -> None:
    rows = (InputRow(1, 10.0), InputRow(8, 80.0))
    nodes = (Node("n1", "a", 4, cpus=8.0, memory_gib=64.0), Node("n2", "b", 4))
    slow = job(measurements=replace(ASKS, input=MeasuredInput(rows, 8, done=True)), report=HALF_DONE)
    models = {slow.id: model({"a": 100.0})}

    def takes_s(cluster: Cluster) -> float:
        return expectations([slow], models, cluster, NO_LENGTHS, lambda job_id: 0.0)[slow.id].mean_s

    assert takes_s(Cluster(nodes)) == pytest.approx(250.0, rel=0.02), "2 CPUs for a GPU prepare 20 samples/s"
    assert takes_s(Cluster((Node("n1", "a", 4),))) == pytest.approx(62.5, rel=0.02), "a node that states no CPUs"


# --- a metric that ends a job -----------------------------------------------------------------------------------

UNITS = [n * 500.0 for n in range(1, 11)]  # half of the training
RISING = Curve(tuple(UNITS), tuple(0.95 - 0.7 * (at / 500.0) ** -0.5 for at in UNITS))  # 0.8 after 21 of 20
STEPPED = Curve(tuple(n * 500.0 for n in range(1, 20)), (*[0.5 + 0.01 * n for n in range(13)], *[0.9] * 6))


def with_target(at_least: float, curve: Curve, **changes: object) -> JobRecord:
    """Return a job that has done half of its 10,000 samples."""
    target = SPEC.training.model_validate({"target": {"metric": "accuracy", "at_least": at_least}})
    spec = SPEC.model_copy(update={"training": target})
    return job(spec=spec, measurements=ASKS, report=HALF_DONE, curve=MetricCurve("accuracy", curve), **changes)


def test_the_time_that_is_planned_follows_the_curve() -> None:
    value = 0.95 - 0.7 * 15**-0.5  # that of the evaluation after 7,500 samples
    found = expected(with_target(value, RISING))
    assert (found.source, found.basis) == (ExpectedSource.LEARNING_CURVE, "its own curve of accuracy")
    assert found.mean_s == pytest.approx(25.0, abs=5.1), "as well as one evaluation"
    assert found.low_s < found.mean_s < found.high_s
    further = with_target(value, RISING)
    further = replace(further, report={"progress_samples": 5_400.0, "fraction": 0.54})
    assert expected(further).mean_s == pytest.approx(found.mean_s - 4.0, rel=0.02), "between two evaluations"


@pytest.mark.parametrize(
    ("curve", "why"),
    [
        (Curve(), "accuracy has 0 points and a curve needs 4"),
        (Curve(RISING.at, RISING.values[::-1]), "accuracy does not rise"),
        (RISING, "accuracy is not expected to reach 0.99 by its end"),
    ],
)
def test_a_job_that_no_curve_tells_of_plans_with_all_of_its_training_and_says_so(curve: Curve, why: str) -> None:
    found = expected(with_target(0.99, curve))
    assert found.source is ExpectedSource.MEASURED_SPEED
    assert (found.mean_s, found.low_s) == (pytest.approx(50.0, rel=0.02), 0.0)
    assert found.text.endswith(f"from measured speed; {why}, so it plans with all of its training")


def test_a_curve_of_another_metric_tells_nothing() -> None:
    other = replace(with_target(0.8, RISING), curve=MetricCurve("loss", RISING))
    assert "accuracy has 0 points" in expected(other).note


def test_the_curve_of_an_earlier_run_of_the_script_foresees_a_jump() -> None:
    earlier = Lengths(LogNormal(60.0, 0.3), None, {"accuracy": (STEPPED,)})
    lengths = RunLengths({("", "script"): earlier})
    own = Curve(STEPPED.at[:10], STEPPED.values[:10])
    found = expected(with_target(0.85, own, script_key="script"), lengths)
    assert (found.source, found.basis) == (ExpectedSource.EARLIER_RUNS, "accuracy in an earlier run")
    assert found.mean_s == pytest.approx(20.0, rel=0.1), "the run jumped after 7,000 samples"
    new = replace(with_target(0.85, Curve(), script_key="script"), report={})
    assert expected(new, lengths).mean_s == pytest.approx(70.0, rel=0.1), "before its first evaluation, too"
    assert expected(with_target(0.85, own), lengths).source is not ExpectedSource.EARLIER_RUNS


def test_how_long_earlier_runs_trained_counts_more_than_a_jobs_own_curve() -> None:
    lengths = RunLengths({("", "script"): Lengths(LogNormal(60.0, 0.3), LogNormal(7_000.0, 0.1))})
    found = expected(with_target(0.8, RISING, script_key="script"), lengths)
    assert (found.source, found.basis) == (ExpectedSource.EARLIER_RUNS, "")
    other = RunLengths({("", "script"): Lengths(LogNormal(60.0, 0.3))})  # nobody knows how far they came
    alone = expected(with_target(0.75, RISING, script_key="script"), other)
    assert alone.source is ExpectedSource.LEARNING_CURVE


def test_without_its_target_a_job_takes_all_of_its_training() -> None:
    found = with_target(0.95 - 0.7 * 15**-0.5, RISING)
    models = {found.id: model({"a": 100.0, "b": 400.0})}
    sooner, longest = (
        expectations([found], models, CLUSTER, NO_LENGTHS, lambda job_id: 0.0, to_the_end=to_the_end)[found.id]
        for to_the_end in (False, True)
    )
    assert sooner.mean_s < longest.mean_s == pytest.approx(work_of(found, 0.0).left_samples / 100.0, rel=0.02)
    assert longest.source is ExpectedSource.MEASURED_SPEED
