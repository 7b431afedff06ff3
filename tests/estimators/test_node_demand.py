"""Promises: forecasts of running nodes go by the past alone, and are no worse than the newest count."""

from __future__ import annotations

import json
from datetime import date

import numpy as np
import pytest
from coadapt.estimators.interpretable.model_file import to_json
from coadapt.estimators.node_demand import HORIZONS, PEAKS, NodeDemand, read
from coadapt.estimators.node_demand_fit import fit
from coadapt.estimators.node_features import NAMES, Calendar, features
from coadapt.estimators.node_series import NodeSeries
from coadapt.estimators.node_sums import NodeSums
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.interpretable import additive
from tests.support.node_counts import at, daily, with_future

SERIES = daily(14)
SPLIT = 11 * 144


@pytest.fixture(scope="module")
def model() -> NodeDemand:
    found = fit([SERIES], at(SPLIT))
    assert found is not None
    return found


def smape(said: np.ndarray, was: np.ndarray) -> float:
    return float(100 * np.mean(2 * np.abs(said - was) / (np.abs(said) + np.abs(was))))


def test_forecasts_are_better_than_the_newest_count_and_than_yesterday(model: NodeDemand) -> None:
    found = model.forecasts(SERIES, SPLIT)
    now, was = SERIES.filled[SPLIT:], SERIES.filled
    for horizon, of in enumerate(HORIZONS):
        said = np.array([one.means[horizon] for one in found])[: len(found) - of]
        later = was[SPLIT + of :]
        if of >= 6:
            assert smape(said, later) <= smape(now[: len(later)], later)
            assert smape(said, later) < smape(was[SPLIT + of - 144 : -144], later)


def test_demand_rises_above_a_peak_as_seldom_as_its_certainty_says(model: NodeDemand) -> None:
    found = model.forecasts(SERIES, SPLIT)
    for of, certainty in PEAKS:
        most = [SERIES.filled[SPLIT + i + 1 : SPLIT + i + 1 + of].max() for i in range(len(found) - of)]
        within = np.mean([one.peak(of, certainty) >= high for one, high in zip(found, most, strict=False)])
        assert within >= certainty - 0.15


@settings(deadline=None)
@given(first=st.integers(SPLIT - 50, SPLIT + 200), running=st.integers(0, 100))
def test_nothing_that_comes_later_changes_a_forecast(model: NodeDemand, first: int, running: int) -> None:
    changed = with_future(SERIES, first, running)
    before, after = model.forecasts(SERIES, first - 3)[:3], model.forecasts(changed, first - 3)[:3]
    for one, other in zip(before, after, strict=True):
        assert one.means.tolist() == other.means.tolist()
        assert one.peaks == other.peaks


def test_nothing_that_comes_later_changes_a_fit(model: NodeDemand) -> None:
    assert fit([with_future(SERIES, SPLIT, 0)], at(SPLIT)) == model


def test_a_forecast_is_the_same_for_a_moment_and_within_a_whole_series(model: NodeDemand) -> None:
    for slot in (10, 143, SPLIT, len(SERIES) - 1):
        (alone,), within = model.forecast([SERIES.of(0, slot + 1)]), model.forecasts(SERIES, slot)[0]
        assert alone is not None
        assert alone.means == pytest.approx(within.means)
        assert alone.peaks == pytest.approx(within.peaks)


def test_sums_foretell_too_and_are_read_as_they_were_written() -> None:
    model = fit([SERIES], at(SPLIT), additive=True)
    assert model is not None
    assert model.kinds == {NodeSums}
    again = read(json.loads(json.dumps(model.to_json())), Calendar())
    found, now, was = model.forecasts(SERIES, SPLIT), SERIES.filled[SPLIT:], SERIES.filled
    for one, other in zip(found, again.forecasts(SERIES, SPLIT), strict=True):
        assert one.means.tolist() == other.means.tolist()
        assert one.peaks == other.peaks
    for horizon, of in enumerate(HORIZONS):
        said = np.array([one.means[horizon] for one in found])[: len(found) - of]
        if of >= 12:
            assert smape(said, was[SPLIT + of :]) <= smape(now[: len(said)], was[SPLIT + of :])
    for slots, certainty in PEAKS:
        most = [SERIES.filled[SPLIT + i + 1 : SPLIT + i + 1 + slots].max() for i in range(len(found) - slots)]
        within = np.mean([one.peak(slots, certainty) >= high for one, high in zip(found, most, strict=False)])
        assert within >= certainty - 0.2


@pytest.mark.parametrize(
    ("document", "why"),
    [({"fit": None}, "is no such document"), ({"fit": to_json(additive()), "above": 0.0}, "other features")],
)
def test_documents_that_are_no_sums_are_refused(document: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        NodeSums.read(document)


@pytest.mark.slow
def test_several_kinds_of_nodes_share_one_model_whatever_their_sizes() -> None:
    small, large = daily(10, seed=1, total=20, swing=6, noise=0.5), daily(10, seed=2, total=400, swing=120)
    model = fit([small, large], small.end_s)
    assert model is not None
    first, second = model.forecast([small, large])
    assert first is not None
    assert second is not None
    assert (first.means <= 20).all()
    assert (second.means > 20).all()


def test_a_model_is_json_and_read_back_foretells_the_same(model: NodeDemand) -> None:
    again = read(json.loads(json.dumps(model.to_json())), Calendar())
    (one,), (other,) = model.forecast([SERIES]), again.forecast([SERIES])
    assert one is not None
    assert other is not None
    assert one.means.tolist() == other.means.tolist()
    assert one.peaks == other.peaks


def test_a_document_that_is_no_model_is_refused_in_a_sentence(model: NodeDemand) -> None:
    good = json.loads(json.dumps(model.to_json()))
    torn = good | {"changes": [{**good["changes"][0], "trees": "tree\nversion=torn"}, *good["changes"][1:]]}
    for bad in ({}, good | {"changes": good["changes"][1:]}, good | {"features": ["hour"]}, torn):
        with pytest.raises(ValueError, match=r"^(node demand|trees): "):
            read(bad, Calendar())


def test_too_few_counts_fit_nothing() -> None:
    assert fit([daily(2)], at(2 * 144)) is None
    assert fit([SERIES], at(0)) is None


def test_what_was_never_counted_has_no_forecast(model: NodeDemand) -> None:
    nobody = NodeSeries(0.0, np.zeros(5, np.int64), np.zeros(5, np.int64), np.zeros(5, bool))
    assert model.forecast([nobody]) == [None]


def test_a_random_walk_is_foretold_by_its_newest_count() -> None:
    rng = np.random.default_rng(3)
    walk = np.clip(50 + np.cumsum(rng.integers(-1, 2, 144 * 12)), 0, 100).astype(np.int64)
    series = NodeSeries(0.0, walk, np.full(len(walk), 100), np.ones(len(walk), bool))
    model = fit([series], series.end_s)
    assert model is not None
    said = np.array([one.means for one in model.forecasts(series)])
    assert np.abs(said - series.filled[:, None]).max() < 5


def test_a_worse_model_is_not_taken(model: NodeDemand) -> None:
    """The last days are as before, but the counts that are learned from are shuffled."""
    rng = np.random.default_rng(4)
    spoilt = SERIES.running.copy()
    spoilt[: 12 * 144] = rng.permutation(spoilt[: 12 * 144])
    history = NodeSeries(SERIES.start_s, spoilt, SERIES.total, SERIES.known)
    assert fit([history], history.end_s, in_use=model) is model
    better = fit([SERIES], SERIES.end_s, in_use=model)
    assert better is not None
    assert better.until_s in (SERIES.end_s, model.until_s)


def test_holidays_are_known_a_day_ahead() -> None:
    calendar = Calendar.of([date(2017, 12, 6)])
    rows = features(daily(4), calendar)
    today, tomorrow = rows[:, NAMES.index("holiday")], rows[:, NAMES.index("holiday_tomorrow")]
    assert np.flatnonzero(tomorrow)[0] == 143  # the end of Monday's last slot is Tuesday
    assert np.flatnonzero(today)[0] == 287
    assert today.sum() == tomorrow.sum() == 144
