"""An operator reads what a file of teams changes, a line each, and nothing where it changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.core.teams_change import differences, version_of
from coadapt.core.teams_file import from_values

BEFORE: dict[str, Any] = {
    "teams": {"vision": {"users": ["ada", "bob"], "guarantee": {"a100": 8}}, "old": {"users": ["eve"]}},
    "prices": {"a100": 3},
}


def told(**teams: Any) -> list[str]:
    """Return what changes where these fields of the team vision do."""
    after = {**BEFORE, "teams": {**BEFORE["teams"], "vision": {**BEFORE["teams"]["vision"], **teams}}}
    return differences(from_values(BEFORE), from_values(after))


def test_nothing_is_told_of_the_same_teams() -> None:
    assert differences(from_values(BEFORE), from_values(BEFORE)) == []
    assert differences(None, from_values({})) == []
    assert version_of(None) == version_of(from_values({})) != version_of(from_values(BEFORE))


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({"users": ["ada", "dan", "fay"]}, ["vision.users: dan, fay come", "vision.users: bob leaves"]),
        ({"users": ["bob", "ada"]}, ["vision.users: in another order"]),
        ({"share": 2.5}, ["vision.share: 1 -> 2.5"]),
        (
            {"guarantee": {"a100": 4, "t4": 2}},
            ["vision.guarantee.a100: 8 -> 4", "vision.guarantee.t4: none -> 2"],
        ),
        ({"cap": {"a100": 12}}, ["vision.cap.a100: none -> 12"]),
        ({"limits": {"queued": 100}}, ["vision.limits.queued: none -> 100"]),
        ({"priorities": ["low"]}, ['vision.priorities: ["low","normal","high"] -> ["low"]']),
        ({"default": True}, ["vision.default: false -> true"]),
    ],
)
def test_each_changed_field_is_a_line(fields: dict[str, Any], lines: list[str]) -> None:
    assert told(**fields) == lines


def test_the_order_of_teams_counts_as_the_first_one_of_a_user_is_meant() -> None:
    teams = BEFORE["teams"]
    turned = {**BEFORE, "teams": {name: teams[name] for name in reversed(teams)}}
    assert differences(from_values(BEFORE), from_values(turned)) == ["teams: in another order: old, vision"]


def test_teams_come_and_go() -> None:
    after = {"teams": {"vision": BEFORE["teams"]["vision"], "new": {"users": ["eve"], "cap": {"t4": 2}}}}
    assert differences(from_values(BEFORE), from_values(after)) == [
        "team old is removed",
        "team new is new: 1 user (eve), share 1, cap t4 2",
        "prices.a100: 3 -> none",
    ]
    assert differences(None, from_values(after))[0].startswith("team vision is new: 2 users (ada, bob), share 1")
