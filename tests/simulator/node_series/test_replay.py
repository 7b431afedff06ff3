"""Promises of a replayed series: what is off was never needed, wake-ups are counted, and a bound bounds."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.node_demand import NodeForecast
from coadapt.estimators.node_demand_fit import fit
from coadapt.estimators.node_series import NodeSeries
from coadapt.policies.sleeping.counts import VANILLA, PeakRule, RecentRule
from coadapt.simulator.node_series.perfect import most_off
from coadapt.simulator.node_series.replay import replay

from tests.support.node_counts import daily

SERIES = daily(21)
SPLIT = 14 * 144
HISTORY, SHOWN = SERIES.of(0, SPLIT), SERIES.of(SPLIT, len(SERIES))


@pytest.fixture(scope="module")
def forecasts() -> list[NodeForecast]:
    model = fit([HISTORY], HISTORY.end_s)
    assert model is not None
    return model.forecasts(SERIES, SPLIT)


def test_what_runs_is_awake_in_every_slot(forecasts: list[NodeForecast]) -> None:
    for rule in (PeakRule(), VANILLA, RecentRule(6, 3)):
        found = replay(rule, HISTORY, SHOWN, forecasts)
        assert (found.awake >= SHOWN.running).all()
        assert (found.awake <= SHOWN.total).all()


def test_a_day_with_a_shape_is_foreseen_with_few_wake_ups(forecasts: list[NodeForecast]) -> None:
    """Check 18 of the spec: at most 3 wake-ups a day, and at most a tenth of those of vanilla DRS."""
    ours = replay(PeakRule(2), HISTORY, SHOWN, forecasts, grants_per_day=2)
    vanilla = replay(VANILLA, HISTORY, SHOWN, forecasts)
    assert ours.wakes_per_day <= 3
    assert ours.wakes_per_day <= vanilla.wakes_per_day / 10
    assert ours.nodes_off > 20
    assert ours.utilisation_after > ours.utilisation_before


def test_the_idler_a_cluster_the_more_is_gained() -> None:
    gains = []
    for busy in (20, 40, 60):
        level = SERIES.running // 3 + busy
        series = NodeSeries(SERIES.start_s, level, SERIES.total, SERIES.known)
        found = replay(RecentRule(36, 2), series.of(0, SPLIT), series.of(SPLIT, len(series)), [None] * len(SHOWN))
        gains.append(found.utilisation_after - found.utilisation_before)
    assert gains == sorted(gains, reverse=True)


def test_nothing_beats_perfect_foresight(forecasts: list[NodeForecast]) -> None:
    bound = most_off(SHOWN, 40)
    assert (np.diff(bound) >= 0).all()
    for rule in (PeakRule(), PeakRule(8), RecentRule(144, 5)):
        found = replay(rule, HISTORY, SHOWN, forecasts)
        if len(found.woken) <= 40:
            assert found.nodes_off <= bound[len(found.woken)]


def test_perfect_foresight_of_a_step() -> None:
    running = np.array([1, 1, 3, 3, 1, 1])
    series = NodeSeries(0.0, running, np.full(6, 4), np.ones(6, bool))
    assert most_off(series, 1) == pytest.approx([(4 * 6 - 3 * 4 - 2) / 6, (4 * 6 - 10) / 6])


def test_wake_ups_their_nodes_and_their_boots_are_counted() -> None:
    running = np.array([5, 2, 2, 6, 6, 1])
    series = NodeSeries(0.0, running, np.full(6, 10), np.ones(6, bool))
    history = NodeSeries(-600.0, np.array([5]), np.array([10]), np.array([True]))
    found = replay(VANILLA, history, series, [None] * 6)
    assert found.awake.tolist() == [5, 5, 2, 6, 6, 6]
    assert found.woken == (4,)
    assert found.nodes_per_wake == 4
    assert found.wakes_per_day == 24
    assert found.nodes_off == pytest.approx(5)
    assert found.saved_kwh == pytest.approx(5 * 1 * 2.4 - 4 * 300 / 3600 * 2.4)


def test_slots_in_which_nobody_counted_change_nothing() -> None:
    running, known = np.array([5, 0, 5]), np.array([True, False, True])
    series = NodeSeries(0.0, running, np.array([10, 0, 10]), known)
    history = NodeSeries(-600.0, np.array([5]), np.array([10]), np.array([True]))
    found = replay(VANILLA, history, series, [None] * 3)
    assert found.awake.tolist() == [5, 5, 5]
    assert not found.woken


def test_a_series_begins_where_its_history_ends() -> None:
    with pytest.raises(ValueError, match="where its history ends"):
        replay(VANILLA, HISTORY.of(0, 5), SHOWN, [None] * len(SHOWN))
