"""Arrivals of the next hour: nothing of the future, sums that add up, and what is refused."""

import json
import math

import numpy as np
import pytest
from coadapt.estimators import arrivals
from coadapt.estimators.absolute_fit import AbsoluteSettings
from coadapt.estimators.arrivals import DAY, HORIZONS, ArrivalForecast, ArrivalSeries
from coadapt.estimators.node_features import Calendar

FEW = AbsoluteSettings(trees=60, leaves=4, learning_rate=0.1, least_rows=30)
AT = [arrivals.NAMES.index(name) for name in ("lag_1", "mean_6", "a_day_before", "hour", "day_of_week")]


def by_day(days: int, seed: int = 0) -> ArrivalSeries:
    """Return jobs that come by day, of two GPUs each."""
    slots = np.arange(days * DAY)
    rate = 6 + 5 * np.sin(2 * np.pi * slots / DAY)
    jobs = np.random.default_rng(seed).poisson(rate).astype(float)
    return ArrivalSeries(0.0, jobs, 2 * jobs)


def test_slots_hold_what_was_submitted_and_have_ended() -> None:
    series = arrivals.series_of([10.0, 700.0, 650.0, 1300.0], [1, 2, 4, 8], 0.0, 1500.0)
    assert series.jobs.tolist() == [1.0, 2.0]  # the third slot has not ended
    assert series.gpus.tolist() == [1.0, 6.0]
    assert len(arrivals.series_of([], [], 0.0, 500.0)) == 0


def test_histories_that_end_before_they_start_or_know_the_future_are_refused() -> None:
    with pytest.raises(ValueError, match="ends at 0 s, before it starts at 600 s"):
        arrivals.series_of([], [], 600.0, 0.0)
    with pytest.raises(ValueError, match="submitted at 700 s, and it is 650 s"):
        arrivals.series_of([700.0], [1], 0.0, 650.0)
    with pytest.raises(ValueError, match="jobs: a count is not accepted"):
        ArrivalSeries(0.0, np.array([-1.0]), np.array([0.0]))


def test_rows_know_nothing_of_the_future() -> None:
    series = by_day(9)
    later = ArrivalSeries(0.0, series.jobs.copy(), series.gpus.copy())
    later.jobs[1200:] = later.gpus[1200:] = 1e6
    for quantity in arrivals.QUANTITIES:
        for ahead in HORIZONS:
            known, changed = (arrivals.rows(one, quantity, ahead, Calendar()) for one in (series, later))
            np.testing.assert_array_equal(known[:1201], changed[:1201])
            assert (known[1201] != changed[1201]).any()


def test_rows_hold_lags_means_and_the_calendar_of_what_is_foretold() -> None:
    series = ArrivalSeries(0.0, np.arange(300.0), np.ones(300))
    row = arrivals.rows(series, "jobs", 6, Calendar(utc_offset_h=1.0))[200]
    assert row[AT].tolist() == pytest.approx([199.0, 196.5, 205.0 - DAY, (205 / 6 + 1) % 24, 4.0])  # a Friday
    assert math.isnan(row[arrivals.NAMES.index("a_week_before")])


def test_rows_of_the_newest_slots_are_those_of_all() -> None:
    series = by_day(12)
    part = series.of(len(series) - arrivals.MEMORY, len(series))
    for ahead in HORIZONS:
        whole, newest = (arrivals.rows(one, "jobs", ahead, Calendar())[-1] for one in (series, part))
        np.testing.assert_allclose(whole, newest, rtol=1e-6)


@pytest.fixture(scope="module")
def forecast() -> ArrivalForecast:
    found = arrivals.fit(by_day(14), settings=FEW)
    assert found is not None
    return found


def test_forecast_follows_the_day(forecast: ArrivalForecast) -> None:
    series = by_day(21, seed=1)
    evening, noon = (forecast.ahead(series.of(0, 14 * DAY + slot)) for slot in (108, 30))
    assert noon.jobs.mean() > 8 > 4 > evening.jobs.mean()
    assert noon.gpus.mean() == pytest.approx(2 * noon.jobs.mean(), rel=0.25)
    assert len(noon.jobs) == arrivals.SLOTS


def test_forecast_is_better_than_the_last_value(forecast: ArrivalForecast) -> None:
    series = by_day(21, seed=2)
    for ahead in HORIZONS:
        known = arrivals.rows(series, "jobs", ahead, Calendar())[14 * DAY : len(series) - ahead + 1]
        truth = series.jobs[14 * DAY + ahead - 1 :]
        error = np.abs(forecast.said("jobs", ahead, known) - truth).mean()
        assert error < np.abs(series.jobs[14 * DAY - 1 : len(series) - ahead] - truth).mean()


def test_forecast_is_its_sum_and_comes_back_from_json(forecast: ArrivalForecast) -> None:
    series = by_day(15, seed=3)
    told = forecast.explain(series, "jobs", 1)
    assert told.mean + sum(score for _, _, score in told.parts) == pytest.approx(told.total, abs=1e-9)
    again = ArrivalForecast.read(json.loads(json.dumps(forecast.to_json())))
    np.testing.assert_array_equal(again.ahead(series).jobs, forecast.ahead(series).jobs)
    document = json.loads(json.dumps(forecast.to_json()))
    del document["models"][0]
    with pytest.raises(ValueError, match="the model of jobs 1 ahead is missing"):
        ArrivalForecast.read(document)


def test_short_histories_have_no_model_and_empty_ones_foretell_nothing() -> None:
    assert arrivals.fit(by_day(2)) is None
    assert arrivals.fit(ArrivalSeries(0.0, np.ones(5 * DAY), np.ones(5 * DAY))) is None
    assert arrivals.without_model(ArrivalSeries(0.0, np.empty(0), np.empty(0))).jobs.tolist() == [0.0] * 6
    assert arrivals.without_model(ArrivalSeries(0.0, np.arange(8.0), np.ones(8))).jobs[0] == 4.5


def test_worse_model_is_not_taken(forecast: ArrivalForecast) -> None:
    wild = np.random.default_rng(4).uniform(0, 300, 4 * DAY)
    strange = ArrivalSeries(0.0, np.concatenate([wild, by_day(8).jobs[: 2 * DAY]]), np.ones(6 * DAY))
    strange.gpus[:] = 2 * strange.jobs
    assert arrivals.refit(strange, forecast, 2 * DAY, settings=FEW) is None
    assert arrivals.refit(by_day(4), None, 0, settings=FEW) is not None
