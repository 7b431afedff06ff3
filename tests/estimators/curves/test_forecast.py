"""When a metric reaches its target, and what is said where no curve tells."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from coadapt.core.training_config import MetricTarget
from coadapt.estimators.curves.curve import Curve
from coadapt.estimators.curves.forecast import until_reached

END = 100.0
X = np.arange(1.0, END + 1)
TRUE = 60  # the evaluation that reaches the target
CURVES = {
    "pow3": 0.95 - 0.7 * X**-0.5,
    "mmf": 0.9 - 0.8 / (1 + (0.08 * X) ** 1.5),
    "weibull": 0.9 - 0.8 * np.exp(-((0.05 * X) ** 1.2)),
}
# The learning rate drops at 30.
STEPPED = np.where(X < 30, 0.6 - 0.4 / X, 0.9 - 0.1 / np.maximum(X - 29.0, 1.0))


def at_least(value: float) -> MetricTarget:
    return MetricTarget(metric="accuracy", at_least=value)


def seen(values, count: int) -> Curve:
    return Curve.of(zip(X[:count], np.asarray(values)[:count], strict=True))


def error(values, count: int, seed: int) -> float:
    noisy = np.asarray(values) + np.random.default_rng(seed).normal(0, 0.005, len(values))
    found = until_reached(at_least(values[TRUE - 1]), seen(noisy, count), count, END)
    return abs(count + found.left - TRUE) / TRUE


@pytest.mark.parametrize("name", CURVES)
def test_the_error_falls_as_training_goes_on(name: str) -> None:
    errors = [np.median([error(CURVES[name], count, seed) for seed in range(9)]) for count in (12, 24, 36, 48)]
    assert all(later <= sooner + 0.02 for sooner, later in itertools.pairwise(errors))
    assert errors[-1] < min(0.15, errors[0] / 2)
    assert errors[0] <= (END - TRUE) / TRUE, "no worse than planning with the maximum"


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_percent_and_parts_of_one_are_foretold_alike(scale: float) -> None:
    curve = CURVES["pow3"] * scale
    found = until_reached(at_least(curve[TRUE - 1]), seen(curve, 30), 30, END)
    assert found.left == pytest.approx(30, abs=4)
    assert found.low <= found.left <= found.high <= END - 30
    assert (found.basis, found.why) == ("its own curve of accuracy", "")


def test_a_loss_falls_to_its_target() -> None:
    loss = 0.4 + 2.0 * X**-0.7
    target = MetricTarget(metric="loss", at_most=float(loss[TRUE - 1]))
    assert until_reached(target, seen(loss, 30), 30, END).left == pytest.approx(30, abs=4)


def test_positions_may_be_samples() -> None:
    curve = CURVES["pow3"]
    own = Curve.of(zip(5000 * X[:30], curve[:30], strict=True))
    found = until_reached(at_least(curve[TRUE - 1]), own, 30 * 5000.0, END * 5000.0)
    assert found.left == pytest.approx(30 * 5000, rel=0.15)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([0.1, 0.2, 0.3], "accuracy has 3 points and a curve needs 4"),
        ([0.1], "accuracy has 1 point and a curve needs 4"),
        ([0.5, 0.4, 0.35, 0.3, 0.2], "accuracy does not rise"),
        ([0.5] * 8, "accuracy has not changed"),
        (0.5 - 0.4 * np.exp(-0.5 * X[:30]), "accuracy is not expected to reach 0.9 by its end"),
    ],
)
def test_a_job_without_a_forecast_plans_with_all_of_its_training_and_says_so(values, why: str) -> None:
    count = len(values)
    found = until_reached(at_least(0.9), seen(values, count), count, END)
    assert (found.left, found.high) == (END - count, END - count)
    assert found.why == f"{why}, so it plans with all of its training"


def test_a_rising_loss_is_said_not_to_fall() -> None:
    target = MetricTarget(metric="loss", at_most=0.1)
    assert "loss does not fall" in until_reached(target, seen([1, 2, 3, 4, 5], 5), 5, END).why


def test_nan_and_single_spikes_change_little() -> None:
    curve = CURVES["pow3"].copy()
    plain = until_reached(at_least(curve[TRUE - 1]), seen(curve, 40), 40, END)
    hit = curve.copy()
    hit[9], hit[20], hit[30] = math.nan, 7.0, -5.0
    spoilt = until_reached(at_least(curve[TRUE - 1]), seen(hit, 40), 40, END)
    assert spoilt.left == pytest.approx(plain.left, abs=4)


def test_a_negative_metric_is_foretold() -> None:
    likelihood = -3.0 + 2.0 * (1 - np.exp(-0.05 * X))
    found = until_reached(at_least(float(likelihood[TRUE - 1])), seen(likelihood, 40), 40, END)
    assert 10 <= found.left <= END - 40


def test_an_earlier_run_foresees_a_jump_that_no_curve_can() -> None:
    earlier = seen(STEPPED + 0.002, 100)
    alone = until_reached(at_least(0.85), seen(STEPPED, 20), 20, END)
    known = until_reached(at_least(0.85), seen(STEPPED, 20), 20, END, [earlier])
    assert alone.left == END - 20
    assert known.left == pytest.approx(10, abs=2)
    assert known.basis == "accuracy in an earlier run"
    assert known.low < known.left < known.high


def test_an_earlier_run_tells_before_the_first_point() -> None:
    found = until_reached(at_least(0.85), Curve(), 0.0, END, [seen(STEPPED, 100), seen(STEPPED, 100)])
    assert found.left == pytest.approx(30, abs=2)
    assert found.basis == "accuracy in 2 earlier runs"


def test_earlier_runs_that_differ_widen_the_band() -> None:
    slow = Curve.of(zip(X * 1.5, STEPPED, strict=True))
    alike = until_reached(at_least(0.85), Curve(), 0.0, END, [seen(STEPPED, 100)] * 2)
    apart = until_reached(at_least(0.85), Curve(), 0.0, END, [seen(STEPPED, 100), slow])
    assert apart.high - apart.low > 1.5 * (alike.high - alike.low)


def test_a_run_that_went_otherwise_foretells_nothing() -> None:
    other = until_reached(at_least(0.85), seen(STEPPED, 20), 20, END, [seen(STEPPED * 0.2, 100)])
    assert other == until_reached(at_least(0.85), seen(STEPPED, 20), 20, END)


def test_an_earlier_run_that_missed_the_target_tells_where_it_was_best() -> None:
    found = until_reached(at_least(0.99), Curve(), 0.0, 2 * END, [seen(STEPPED, 100)])
    assert found.left == pytest.approx(100, rel=0.05)


def test_a_job_at_its_end_has_nothing_left() -> None:
    found = until_reached(at_least(0.97), seen(CURVES["pow3"], 100), END, END)
    assert (found.left, found.low, found.high) == (0.0, 0.0, 0.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(40))
def test_whatever_the_curve_the_band_holds_the_mean_and_ends_with_the_training(seed: int) -> None:
    random = np.random.default_rng(seed)
    count, scale = int(random.integers(1, 30)), 10.0 ** random.integers(-8, 9)
    values = scale * [random.normal(0, 1, count), np.cumsum(random.random(count)), 1 - 1 / X[:count]][seed % 3]
    values[random.integers(count)] = random.choice([math.nan, math.inf, 1e300, values[0]])
    at = np.cumsum(random.random(count) + 1e-9) * 10.0 ** random.integers(-3, 7)
    bound = {"at_least" if seed % 2 else "at_most": float(random.normal() * scale)}
    earlier = [Curve.of(zip(1.1 * at, values[::-1], strict=True))] if seed % 4 == 0 else []
    now = float(at[-1])
    end = now * (1 + random.random() * float(random.choice([0.0, 0.01, 1.0, 1000.0])))
    own = Curve.of(zip(at, values, strict=True))
    found = until_reached(MetricTarget(metric="loss", **bound), own, now, end, earlier)
    assert 0 <= found.low <= found.left <= found.high <= end - now
