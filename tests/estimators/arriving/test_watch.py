"""A model is not heeded for a team and window of which it has foretold too few arrivals in the last day."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.arriving.model import Arriving, fit
from coadapt.estimators.arriving.past import TeamPast
from coadapt.estimators.arriving.watch import Watch

HOUR_S, DAY_S = 3600.0, 86_400.0
WINDOW_S = 3600.0
NONE = np.empty(0)


def team(hours_of_day: dict[int, float]) -> TeamPast:
    """Return a team that submits for two hours a day, by day from which hour on."""
    times = [
        DAY_S * day + HOUR_S * hour + 300.0 * step for day, hour in hours_of_day.items() for step in range(24)
    ]
    return TeamPast(np.array(times), NONE, NONE, NONE, NONE)


USUAL = team(dict.fromkeys(range(12), 9.0))


@pytest.fixture(scope="module")
def model() -> Arriving:
    found = fit([USUAL], 0.0, 6 * DAY_S, (WINDOW_S,))
    assert found is not None
    return found


def missed(watch: Watch, past: TeamPast, now: float) -> bool:
    watch.look({"vision": past.until(now)}, now)
    return ("vision", WINDOW_S) in watch.missed


def test_a_team_that_comes_as_usual_is_foretold(model: Arriving) -> None:
    watch = Watch(model, 0.5)
    assert not any(missed(watch, USUAL, 7 * DAY_S + HOUR_S * hour) for hour in range(48))


def test_a_team_that_drifts_is_not_heeded_within_a_day_and_is_again_once_it_is_as_usual(model: Arriving) -> None:
    drifted = team(dict.fromkeys(range(7), 9.0) | {7: 1.0} | dict.fromkeys(range(8, 13), 9.0))
    watch = Watch(model, 0.5)
    found = [missed(watch, drifted, 7 * DAY_S + HOUR_S * hour / 4) for hour in range(4 * 96)]
    first, last = found.index(True) / 4, (len(found) - 1 - found[::-1].index(True)) / 4
    assert 1.0 <= first < 24.0, "less than a day after jobs came that were not foretold"
    assert 24.0 < last < 72.0, "a day after the last arrivals that the unusual day hid"


def test_what_is_not_to_be_foretold_is_always_heeded(model: Arriving) -> None:
    drifted = team({day: 9.0 if day < 7 else 1.0 for day in range(10)})
    watch = Watch(model, 0.0)
    assert not any(missed(watch, drifted, 7 * DAY_S + HOUR_S * hour) for hour in range(72))


def test_a_team_without_arrivals_has_missed_none_and_each_is_watched_alone(model: Arriving) -> None:
    silent, drifted = team({0: 9.0}), team({day: 9.0 if day < 7 else 1.0 for day in range(8)})
    now = 7 * DAY_S + 12 * HOUR_S
    watch = Watch(model, 0.5)
    watch.look({"silent": silent.until(now), "drifted": drifted.until(now)}, now)
    assert watch.missed == {("drifted", WINDOW_S)}


def test_looking_seldom_tells_the_same_as_looking_often(model: Arriving) -> None:
    drifted = team({day: 9.0 if day < 7 else 1.0 for day in range(10)})
    often, seldom = Watch(model, 0.5), Watch(model, 0.5)
    end = 8 * DAY_S + 4 * HOUR_S
    for now in np.arange(end - 2 * DAY_S, end, 100.0):
        missed(often, drifted, float(now))
    assert missed(often, drifted, end) == missed(seldom, drifted, end)
