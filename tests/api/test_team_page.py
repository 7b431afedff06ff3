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


def test_a_team_is_told_what_it_lends(api: Api) -> None:
    lends = {"teams": {"vision": {"users": ["ann"], "guarantee": {"t4": 1}}, "speech": {"guarantee": {"t4": 3}}}}
    assert apply(api, lends).status_code == 200
    api.world.ids["a"] = submit(api, "ann", "a", profile=False).json()["id"]
    api.world.play("wish a t4-000:2\ngo\nruns a")
    now = api.ask("GET", "/v1/teams").json()["now"]
    assert {name: (team["gpus"], team["borrowed"], team["lent"]) for name, team in now.items()} == {
        "vision": ({"t4": 2}, {"t4": 1}, {}),
        "speech": ({}, {}, {"t4": 1}),
    }
    assert 'aria-label="t4: 0 used; guarantee 3, 1 lent, no cap"' in page(api)


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


def test_jobs_of_others_are_told_by_their_team_only(api: Api) -> None:
    shared(api)
    found = page(api, "eve", "/")
    assert 'title="a job of team vision"' in found
    assert "a-1" not in found
    assert 'title="a"' in page(api, "bob", "/"), "a user of the team sees its name"
    assert api.ask("GET", "/v1/cluster", "eve").json()["nodes"][0]["jobs"] == {"others": 2}


def test_lists_and_jobs_tell_their_team_where_there_are_teams(api: Api) -> None:
    shared(api)
    found = page(api, "bob", "/jobs")
    assert '<td class="aside">vision</td>' in found
    assert '<td class="aside">ann</td>' in found, "users of a team see whose a job is"
    assert "<option selected>vision</option>" in page(api, "ops", "/jobs?team=vision")
    assert "No job fits" in page(api, "ops", "/jobs?team=speech")
    assert 'href="/jobs?team=vision">vision</a>' in page(api, "ann", f"/jobs/{api.world.ids['a']}")


def test_without_teams_neither_lists_nor_jobs_tell_of_any(api: Api) -> None:
    job_id = submit(api, "ann", "a", profile=False).json()["id"]
    for user in ("ann", "ops"):
        for path in ("/", "/jobs", f"/jobs/{job_id}"):
            assert "team" not in page(api, user, path).lower()


def test_who_may_change_a_job_sets_its_priority_of_those_of_its_team(api: Api) -> None:
    shared(api)
    path = f"/jobs/{api.world.ids['a']}"
    found = page(api, "ann", path)
    assert f'data-send="/v1{path}/priority"' in found
    assert re.findall(r"<option( selected)?>(low|normal|high|urgent)", found) == [
        ("", "low"),
        (" selected", "normal"),
        ("", "high"),
    ]
    for user in ("vic", "bob"):
        assert f'data-send="/v1{path}/priority"' not in page(api, user, path)
        assert "Priority normal" in page(api, user, path)


def test_a_waiting_job_is_held_released_and_given_more_time(api: Api) -> None:
    job_id = submit(api, "ann", "a", profile=False, time_limit="2h", labels={"of": "paper"}).json()["id"]
    path = f"/jobs/{job_id}"
    found = page(api, "ann", path)
    assert f'data-post="/v1{path}/hold"' in found
    assert "Time limit 2 h" in found
    assert f'data-send="/v1{path}/extend"' in found
    assert "of: paper" in found
    assert "of: paper" in page(api, "ann", "/jobs")
    assert api.ask("POST", f"/v1{path}/hold", "ann", headers={"Idempotency-Key": "h"}).status_code == 200
    held = page(api, "ann", path)
    assert f'data-post="/v1{path}/release"' in held
    assert f'data-post="/v1{path}/hold"' not in held


def test_an_array_is_one_line_that_opens_its_jobs(api: Api) -> None:
    made = submit(
        api, "ann", "sweep", profile=False, args=["--lr", "{lr}"], array={"grid": {"lr": [0.1, 0.2, 0.3]}}
    )
    array = made.json()["id"]
    submit(api, "ann", "single", profile=False)
    found = page(api, "ann", "/jobs")
    assert "<h1>4 active jobs.</h1>" in found
    assert found.count("<tr id=") == 2
    assert "3 jobs of an array" in found
    address = f"/jobs?which=all&array={array.replace('+', '%2B')}"
    assert address.replace("&", "&amp;") in found
    opened = page(api, "ann", address)
    assert opened.count("<tr id=") == 3
    assert "lr 0.2" in opened
    assert f"3 jobs of the array {array}." in opened
    first = re.findall(r'href="(/jobs/sweep[^"]+)"', opened)[0]
    assert "Of the array" in page(api, "ann", first)
    one = first.removeprefix("/jobs/")
    api.ask("POST", f"/v1/jobs/{one}/cancel", "ann")
    assert "2 waiting, 1 cancelled" in page(api, "ann", "/jobs"), "some of it goes on"


def test_users_of_a_team_fork_each_others_jobs_and_do_nothing_else(api: Api) -> None:
    shared(api)
    api.world.play("report a t4")
    path = f"/jobs/{api.world.ids['a']}"
    found = page(api, "bob", path)
    assert f'data-send="/v1{path}/fork"' in found
    assert 'data-post="/v1' not in found
    assert f'data-send="/v1{path}/fork"' not in page(api, "vic", path)


def test_gpus_of_a_node_that_is_drained_count_as_long_as_it_is_here(api: Api) -> None:
    shared(api)
    before = api.service.team_board()["gpus"]
    assert api.ask("POST", "/v1/nodes/t4-000/cordon", "ops", json={"why": "a fan"}).status_code == 200
    assert api.service.team_board()["gpus"] == before
