"""Bars of teams: what is used, borrowed, guaranteed and the cap, on one scale a team."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.core.teams import Teams
from coadapt.dashboard.teams_page import TeamsPage, teams_page
from coadapt.scheduler.runtime.applied_teams import view_of


def page(
    team: dict[str, Any],
    gpus: dict[str, int],
    *,
    used: list[Any] | None = None,
    told: tuple[str, ...] | None = None,
    lent: dict[str, int] | None = None,
    **cluster: int,
) -> TeamsPage:
    view: Any = view_of(Teams.model_validate({"teams": {"vision": team}}), None)
    over = {kind: count - team.get("guarantee", {}).get(kind, 0) for kind, count in gpus.items()}
    borrowed = {kind: count for kind, count in over.items() if count > 0}
    now = {
        "gpus": gpus,
        "borrowed": borrowed,
        "lent": lent or {},
        "running": 1,
        "waiting": 2,
        "users": {"ann": gpus},
    }
    return teams_page(view, {"teams": {"vision": now}, "gpus": cluster}, used or [], told)


def test_all_types_of_a_team_have_one_scale() -> None:
    (team,) = page({"guarantee": {"t4": 4}, "cap": {"t4": 8, "a100": 4}}, {"t4": 6}, t4=16, a100=4).teams
    a100, t4 = team.bars
    assert team.scale == 8
    assert (t4.own, t4.beyond, t4.promised, t4.room) == (50.0, 25.0, 50.0, 100.0)
    assert (a100.own, a100.beyond, a100.promised, a100.room) == (0.0, 0.0, 0.0, 50.0)


def test_a_bar_never_leaves_its_scale() -> None:
    """A team may use more than its cap after that was lowered, or more than there is after a node has left."""
    (team,) = page({"guarantee": {"t4": 2}, "cap": {"t4": 2}}, {"t4": 6}, t4=4).teams
    (bar,) = team.bars
    assert bar.own + bar.beyond == 100.0
    assert bar.promised <= 100.0
    assert bar.room < 100.0


@pytest.mark.parametrize(
    ("team", "gpus", "told"),
    [
        ({}, {}, "0 used; guarantee 0, no cap"),
        ({"guarantee": {"t4": 3}}, {"t4": 2}, "2 used; guarantee 3, no cap"),
        ({"guarantee": {"t4": 1}, "cap": {"t4": 2}}, {"t4": 2}, "2 used, 1 borrowed; guarantee 1, cap 2"),
    ],
)
def test_a_bar_is_told_in_words(team: dict[str, Any], gpus: dict[str, int], told: str) -> None:
    (line,) = page(team, gpus, t4=4).teams
    assert [bar.told for bar in line.bars] == [told]


def test_a_bar_tells_what_others_have_of_a_guarantee() -> None:
    (line,) = page({"guarantee": {"t4": 3}}, {"t4": 1}, lent={"t4": 2}, t4=4).teams
    assert [bar.told for bar in line.bars] == ["1 used; guarantee 3, 2 lent, no cap"]


@pytest.mark.parametrize(
    ("units", "warns", "over"), [(79.0, False, False), (80.0, True, False), (100.0, True, True)]
)
def test_value_units_stand_beside_their_limit(units: float, warns: bool, over: bool) -> None:
    used = [{"team": "vision", "user": "ann", "value_units": units}]
    (team,) = page({"limits": {"value_units_a_month": 100}}, {}, used=used, t4=4).teams
    assert team.spent is not None
    assert team.spent.told == f"{'100' if over else int(units)} of 100 value units this month"
    assert (team.spent.warns, team.spent.over) == (warns, over)


def test_jobs_of_removed_teams_count_for_the_default_one() -> None:
    used = [{"team": "gone", "user": "eve", "value_units": 3.0}]
    (team,) = page({"default": True}, {}, used=used, t4=4).teams
    assert team.spent is not None
    assert team.spent.units == 3.0
    assert "eve" in {member.name for member in team.members}


def test_the_sentence_counts_all_teams() -> None:
    assert page({}, {"t4": 2}, t4=4).answer == "1 team uses 2 of 4 GPUs; 2 are borrowed; 2 jobs wait."


def test_of_teams_of_others_no_users_and_no_value_units_are_told() -> None:
    (team,) = page({"users": ["ann"]}, {"t4": 2}, told=(), t4=4).teams
    assert (team.spent, team.members) == (None, ())
