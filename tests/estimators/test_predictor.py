"""How long a job still needs: work left over the speed on the GPUs it asks for, with a band by its error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from coadapt.core.cluster import Cluster
from coadapt.core.expected import UNKNOWN, ExpectedSource
from coadapt.core.log_normal import LogNormal
from coadapt.estimators.goodput import goodput_on
from coadapt.estimators.predictor import (
    EXTRAPOLATION_ERROR,
    MODEL_ERROR,
    Work,
    Z,
    asked_speeds,
    predict,
    work_left,
)
from coadapt.estimators.profile import Profile
from coadapt.estimators.run_lengths import Lengths
from coadapt.estimators.throughput import ThroughputModel, ThroughputParams, spread_of

from tests.support.rounds import cluster, model

NODES = cluster("4x a:4, 2x b:8")
SLOW_LINK = model({"a": 100.0, "b": 300.0}, link=0.05)
WORK = 9000.0


def test_the_speed_is_that_of_the_fastest_type_on_the_gpus_asked_for() -> None:
    asked = [1, 4, 8, 16, 4]
    found = asked_speeds([SLOW_LINK] * 4 + [None], asked, NODES)
    sizes = NODES.largest_nodes.items()
    best = [max(goodput_on(SLOW_LINK, t, gpus, most) for t, most in sizes) for gpus in asked[:4]]
    assert found.samples_per_s.tolist() == pytest.approx([*best, 0.0])
    assert found.samples_per_s.tolist()[:4] == sorted(best), "more GPUs are faster here"


def test_a_type_with_fewer_gpus_than_a_job_asks_for_does_not_tell_its_speed() -> None:
    few = cluster("2x a:4, 1x b:4")
    found = asked_speeds([SLOW_LINK] * 3, [4, 8, 16], few)
    speeds = [goodput_on(SLOW_LINK, gpu_type, gpus, 4) for gpu_type, gpus in (("b", 4), ("a", 8))]
    assert found.samples_per_s.tolist() == pytest.approx([*speeds, 0.0])


def test_without_nodes_nobody_knows_a_speed() -> None:
    assert asked_speeds([SLOW_LINK], [1], Cluster(())).samples_per_s.tolist() == [0.0]


def test_the_band_is_that_of_the_models_error_and_of_the_spread_of_measurements() -> None:
    sure = asked_speeds([SLOW_LINK], [8], NODES)
    beyond = asked_speeds([SLOW_LINK], [16], NODES)
    assert (sure.error.tolist(), beyond.error.tolist()) == ([MODEL_ERROR], [EXTRAPOLATION_ERROR])
    expected = predict(Work(WORK), float(sure.samples_per_s[0]), MODEL_ERROR)
    assert expected.source is ExpectedSource.MEASURED_SPEED
    assert expected.mean_s == pytest.approx(WORK / sure.samples_per_s[0])
    assert expected.high_s / expected.mean_s == pytest.approx(math.exp(Z * MODEL_ERROR))
    assert expected.mean_s / expected.low_s == pytest.approx(math.exp(Z * MODEL_ERROR))


def test_steps_that_scatter_around_their_fit_widen_the_band() -> None:
    params = ThroughputParams(alpha_c=0.1, beta_c=0.01)
    sizes = np.array([8, 16, 32, 64])
    exact = 0.1 + 0.01 * sizes
    ones = np.ones(4, np.int64)

    def spread(factors: list[float]) -> float:
        profile = Profile(ones, ones, sizes, 0 * ones, exact * factors, 0.0 * exact, ones, ones)
        return spread_of(params, profile)

    assert spread([1.0] * 4) == pytest.approx(0.0, abs=1e-9)
    assert spread([1.2, 1 / 1.2] * 2) == pytest.approx(math.log(1.2))
    assert ThroughputModel(params, 64).spread == 0.0


def test_four_jobs_of_five_end_within_the_band() -> None:
    random = np.random.default_rng(0)
    expected = predict(Work(WORK), 10.0, 0.25)
    took_s = WORK / 10.0 * np.exp(0.25 * random.standard_normal(4000))
    within = np.mean((took_s >= expected.low_s) & (took_s <= expected.high_s))
    assert within == pytest.approx(0.8, abs=0.02)


def test_a_job_that_a_metric_may_end_has_no_least_time() -> None:
    expected = predict(Work(WORK, may_end_sooner=True), 10.0, 0.1)
    assert (expected.low_s, expected.mean_s) == (0.0, 900.0)


@pytest.mark.parametrize(("samples", "speed"), [(None, 10.0), (WORK, 0.0), (None, 0.0), (1e308, 1e-10)])
def test_without_work_or_speed_nobody_can_tell(samples: float | None, speed: float) -> None:
    assert predict(Work(samples), speed, 0.1) is UNKNOWN


def test_work_left_is_that_of_the_epochs_and_before_training_what_the_script_asks_for() -> None:
    assert work_left(0.0, 0.0, 4000.0) == 4000.0
    assert work_left(0.0, 0.0, None) is None
    assert work_left(1000.0, 0.25, 4000.0) == pytest.approx(3000.0)
    assert work_left(1000.0, 0.25, None) == pytest.approx(3000.0)


# --- earlier runs of the same script ----------------------------------------------------------------------------

EARLIER = Lengths(LogNormal(100.0, 0.2), LogNormal(4000.0, 0.2))


def test_a_metric_that_ended_earlier_runs_is_expected_to_end_this_one_as_soon() -> None:
    work = Work(WORK, may_end_sooner=True)
    expected = predict(work, 10.0, 0.1, EARLIER)
    assert expected.source is ExpectedSource.EARLIER_RUNS
    assert 0 < expected.low_s < 400.0 < expected.mean_s < expected.high_s < WORK / 10.0
    half = predict(Work(WORK, done_samples=2000.0, may_end_sooner=True), 10.0, 0.1, EARLIER)
    assert half.mean_s == pytest.approx(expected.mean_s - 200.0, rel=0.02)
    sooner = predict(Work(500.0, may_end_sooner=True), 10.0, 0.1, EARLIER)
    assert sooner.mean_s == 50.0, "never longer than its epochs"


def test_epochs_count_more_than_earlier_runs_where_no_metric_may_end_the_job() -> None:
    assert predict(Work(WORK), 10.0, 0.1, EARLIER).source is ExpectedSource.MEASURED_SPEED


def test_a_job_of_unknown_epochs_trains_as_much_as_earlier_runs() -> None:
    expected = predict(Work(None), 10.0, 0.1, EARLIER)
    assert expected.source is ExpectedSource.EARLIER_RUNS
    assert expected.mean_s == pytest.approx(400.0, rel=0.03)


def test_a_job_of_unknown_speed_takes_as_long_as_earlier_runs_less_what_it_has_had() -> None:
    expected, later = (predict(Work(WORK, trained_s=s), 0.0, 0.0, EARLIER) for s in (0.0, 60.0))
    assert expected.source is later.source is ExpectedSource.EARLIER_RUNS
    assert expected.mean_s == pytest.approx(100.0, rel=0.03)
    assert later.mean_s == pytest.approx(42.0, rel=0.05)
    assert predict(Work(WORK, trained_s=1e4), 0.0, 0.0, EARLIER) is UNKNOWN
