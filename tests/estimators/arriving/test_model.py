"""Whether jobs arrive is learned from what came. A model is taken where it is no worse than the one before."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from coadapt.estimators.arriving import model as arriving
from coadapt.estimators.arriving.features import NAMES
from coadapt.estimators.arriving.model import Arriving, fit, loss, refit
from coadapt.estimators.arriving.past import TeamPast
from coadapt.estimators.boosted import Trees

HOUR_S, DAY_S = 3600.0, 86_400.0
WINDOWS_S = (300.0, 3600.0)
NONE = np.empty(0)


def team(days: float, hours: tuple[float, float] = (9.0, 18.0), gap_s: float = 200.0) -> TeamPast:
    """Return a team that submits every `gap_s` in these hours of each day."""
    times = np.arange(0.0, DAY_S * days, gap_s)
    of_day = times % DAY_S / HOUR_S
    return TeamPast(times[(hours[0] <= of_day) & (of_day < hours[1])], NONE, NONE, NONE, NONE)


@pytest.fixture(scope="module")
def fitted() -> Arriving:
    found = fit([team(6), team(6, (20.0, 23.0))], 0.0, 6 * DAY_S, WINDOWS_S)
    assert found is not None
    return found


def said_at(of: Arriving, day: float, hour: float, past: TeamPast, window_s: float) -> bool:
    now = DAY_S * day + HOUR_S * hour
    return bool(of.said([past.until(now)], np.array([now]))[window_s][0, 0])


def test_the_hours_of_a_team_are_learned_and_shared_with_a_team_that_was_not_seen(fitted: Arriving) -> None:
    unseen = team(8, (3.0, 5.0))
    assert said_at(fitted, 7, 4.0, unseen, 300.0)
    assert not said_at(fitted, 7, 12.0, unseen, 300.0)
    assert not said_at(fitted, 7, 12.0, unseen, 3600.0)


def test_what_arrives_within_a_window_arrives_within_a_longer_one() -> None:
    of = fit([team(6)], 0.0, 6 * DAY_S, WINDOWS_S)
    assert of is not None
    never = fit([team(6, (9.0, 9.01))], 0.0, 6 * DAY_S, (3600.0,))
    assert never is not None
    mixed = Arriving({300.0: of.trees[300.0], 3600.0: never.trees[3600.0]}, of.until_s)
    at_s = np.arange(6.0, 7.0, 1 / 48) * DAY_S
    said = mixed.said([team(7)], at_s)
    assert said[300.0].any()
    assert (said[3600.0] | ~said[300.0]).all()


def test_nothing_is_learned_where_all_moments_are_alike() -> None:
    always = TeamPast(np.arange(0.0, 6 * DAY_S, 100.0), NONE, NONE, NONE, NONE)
    assert fit([always], 0.0, 6 * DAY_S, WINDOWS_S) is None
    assert fit([], 0.0, 6 * DAY_S, WINDOWS_S) is None


def test_no_moment_is_learned_from_whose_window_has_not_passed() -> None:
    """What comes later changes no model."""
    until_s = 5.5 * DAY_S
    before, after = team(6).until(until_s), team(6)
    found = [fit([one], 0.0, until_s, WINDOWS_S) for one in (before, after)]
    assert found[0] is not None
    assert found[0] == found[1]


def test_a_first_model_is_taken_if_it_is_better_than_that_jobs_always_arrive() -> None:
    now = 6 * DAY_S
    found = refit([team(6)], 0.0, now, WINDOWS_S, None)
    assert found is not None
    assert found.until_s == now - DAY_S - 3600.0, "the newest day, and the longest window, was held back"
    random = np.random.default_rng(0)
    noise = TeamPast(np.sort(random.uniform(0, now, 600)), NONE, NONE, NONE, NONE)
    at_always = loss(None, [noise], now - DAY_S - 3600.0, now, WINDOWS_S)
    assert at_always == 0.5


def test_a_model_that_is_worse_on_days_that_neither_saw_is_not_taken() -> None:
    good = refit([team(6)], 0.0, 6 * DAY_S, WINDOWS_S, None)
    assert good is not None
    fresh = refit([team(8)], 0.0, 8 * DAY_S, WINDOWS_S, good)
    assert fresh is not None
    assert fresh.until_s > good.until_s
    held_s = 8 * DAY_S - DAY_S - 3600.0
    by_chance = np.random.default_rng(0).uniform(0, held_s, 100)
    usual = team(8).submitted_s
    misled = TeamPast(np.sort([*by_chance, *usual[usual > held_s]]), NONE, NONE, NONE, NONE)
    assert fit([misled], 0.0, held_s, WINDOWS_S) is not None
    assert refit([misled], 0.0, 8 * DAY_S, WINDOWS_S, good) is None


def test_a_model_of_the_held_back_days_is_not_compared() -> None:
    good = refit([team(6)], 0.0, 6 * DAY_S, WINDOWS_S, None)
    assert good is not None
    assert refit([team(6)], 0.0, 6 * DAY_S, WINDOWS_S, replace(good, until_s=5 * DAY_S)) is None


def test_many_teams_are_looked_at_less_often() -> None:
    assert len(arriving.moments(0.0, DAY_S, 15)) == 288
    assert len(arriving.moments(0.0, DAY_S, 15, most_rows=1000)) * 15 <= 1000
    assert len(arriving.moments(DAY_S, 0.0, 15)) == 0


def test_a_model_is_the_same_after_its_file(fitted: Arriving) -> None:
    document = json.loads(json.dumps(fitted.to_json()))
    assert Arriving.read(document, WINDOWS_S) == fitted


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            {"features": list(NAMES[:-1])},
            "team_load: the model is of other features; it is of another version of coadapt",
        ),
        ({"windows": []}, "team_load: the model is of windows of none s, and 300, 3600 are wanted"),
        ({"until_s": None}, "team_load: is no such model: TypeError"),
        (
            {"windows": [{"window_s": 300.0, "trees": "torn"}, {"window_s": 3600.0, "trees": "torn"}]},
            "trees: are no LightGBM model",
        ),
    ],
)
def test_a_torn_or_foreign_model_is_refused_in_a_sentence(
    change: dict[str, object], error: str, fitted: Arriving
) -> None:
    with pytest.raises(ValueError, match=error) as refused:
        Arriving.read({**fitted.to_json(), **change}, WINDOWS_S)
    assert "\n" not in str(refused.value)


def test_trees_of_other_features_are_refused(fitted: Arriving) -> None:
    few = arriving.boosted.fit(
        np.eye(40)[:, :3], np.arange(40.0) % 2, settings={"objective": "binary"}, trees=1, seed=0
    )
    foreign = Arriving({300.0: few, 3600.0: Trees(few.text)}, 0.0)
    with pytest.raises(ValueError, match="trees: have 3 features, and 14 are accepted"):
        Arriving.read(foreign.to_json(), WINDOWS_S)


def test_the_window_of_a_horizon(fitted: Arriving) -> None:
    assert [fitted.window_of(s) for s in (1.0, 300.0, 301.0, 3600.0, math.inf)] == [
        300.0,
        300.0,
        3600.0,
        3600.0,
        None,
    ]
