"""The page of teams: who sees what of which team, and what it says where there are none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.test_teams import apply, submit
from tests.support.api import Api

FILE: dict[str, Any] = {
    "teams": {
        "vision": {
            "users": ["ann", "bob"],
            "guarantee": {"t4": 1},
            "cap": {"t4": 3},
            "limits": {"value_units_a_month": 100},
        },
        "speech": {"users": ["eve"], "share": 2},
    }
}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    api.service.put_user("eve", "user")
    api.tokens["eve"] = api.service.issue_token("eve")["token"]
    yield api
    api.world.store.close()


def shared(api: Api) -> None:
    """Let a job of ann, of team vision, train on two t4."""
    assert apply(api, FILE).status_code == 200
    api.world.ids["a"] = submit(api, "ann", "a", profile=False).json()["id"]
    api.world.play("wish a t4-000:2\ngo\nruns a")


def page(api: Api, user: str = "ops", path: str = "/teams") -> str:
    answer = api.ask("GET", path, user)
    assert answer.status_code == 200
    return answer.text


def test_without_teams_nothing_is_in_the_menu_and_the_page_says_what_to_type(api: Api) -> None:
    for path in ("/", "/jobs", "/nodes", "/teams"):
        assert 'href="/teams"' not in page(api, path=path)
    assert "<h1>No teams share this cluster.</h1>" in page(api)
    assert "coadapt teams apply teams.yaml" in page(api)


def test_a_bar_shows_what_is_used_borrowed_guaranteed_and_the_cap(api: Api) -> None:
    shared(api)
    found = page(api)
    assert 'href="/teams" aria-current="page"' in found
    assert "<h1>2 teams use 2 of 4 GPUs; 1 is borrowed.</h1>" in found
    assert 'aria-label="t4: 2 used, 1 borrowed; guarantee 1, cap 3"' in found
    assert 'aria-label="t4: 0 used; guarantee 0, no cap"' in found
    assert "of 100 value units this month" in found


@pytest.mark.parametrize(
    ("user", "members"),
    [("ops", {"ann", "bob", "eve"}), ("vic", {"ann", "bob", "eve"}), ("ann", {"ann", "bob"}), ("eve", {"eve"})],
)
def test_users_see_members_and_value_units_of_their_own_teams_only(api: Api, user: str, members: set[str]) -> None:
    shared(api)
    found = page(api, user)
    told = set(re.findall(r"<tr><td>(\w+)</td>", found))
    assert told == members
    assert "t4: 2 used, 1 borrowed" in found, "what each team has is told to all"
    assert ("of 100 value units" in found) is ("ann" in members)
