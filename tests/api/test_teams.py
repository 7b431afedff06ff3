"""Teams are applied by operators, and their users see each other's jobs: nobody else does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.slot import Slot
from coadapt.scheduler.runtime.applied_teams import AppliedTeams

from tests.support.api import JOB, SPEC, Api

FILE: dict[str, Any] = {
    "teams": {
        "vision": {"users": ["ann", "bob"], "guarantee": {"t4": 2}, "template": {"labels": {"of": "vision"}}},
        "speech": {"users": ["eve"]},
    }
}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    api.service.put_user("eve", "user")
    api.tokens["eve"] = api.service.issue_token("eve")["token"]
    yield api
    api.world.store.close()


def apply(api: Api, file: dict[str, Any] = FILE, user: str = "ops", **more: Any) -> Any:
    return api.ask("PUT", "/v1/teams", user, json={"file": file, **more})


def submit(api: Api, user: str, name: str, **fields: Any) -> Any:
    body = {**JOB, "spec": {**SPEC, "name": name, **fields}}
    return api.ask("POST", "/v1/jobs", user, json=body, headers={"Idempotency-Key": name})


def test_teams_are_looked_at_applied_and_there_after_a_restart(api: Api) -> None:
    assert api.ask("GET", "/v1/teams").json()["teams"] == {}
    looked = apply(api, dry_run=True).json()
    assert looked["changes"] == [
        "team vision is new: 2 users (ann, bob), share 1, guarantee t4 2",
        "team speech is new: 1 user (eve), share 1",
    ]
    assert api.service.parts.cycle.teams.now is None
    applied = apply(api, version=looked["version"])
    assert (applied.status_code, applied.json()["changes"]) == (200, looked["changes"])
    assert apply(api, version=looked["version"]).json()["changes"] == [], "it may be repeated"
    kept = AppliedTeams(api.world.store).now
    assert kept is not None
    assert list(kept.teams) == ["vision", "speech"]
    (row,) = api.ask("GET", "/v1/audit", params={"verb": "teams.apply"}).json()["items"][1:]
    assert (row["user"], row["detail"]["after"]["teams"]) == ("ops", ["speech", "vision"])
    events = api.ask("GET", "/v1/events", params={"follow": "false", "kind": "teams"}).json()
    assert [event["text"][:18] for event in events] == ["team vision is new"]


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ({"teams": {"a": {"template": {"team": "b"}}}}, "teams.a.template.team: each job says this itself"),
        ({"colour": 1}, "colour: unknown field"),
    ],
)
def test_what_cannot_be_applied_is_one_sentence(api: Api, file: dict[str, Any], sentence: str) -> None:
    refused = apply(api, file)
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith(sentence)
    assert "\n" not in refused.json()["detail"]
    assert api.service.parts.cycle.teams.now is None


def test_a_file_is_not_applied_to_other_teams_than_it_was_compared_with(api: Api) -> None:
    version = apply(api, dry_run=True).json()["version"]
    apply(api, {"teams": {"other": {}}})
    refused = apply(api, version=version)
    assert (refused.status_code, refused.json()["detail"][:22]) == (422, "the teams have changed")


def test_users_of_a_team_see_each_others_jobs_and_change_their_own(api: Api) -> None:
    apply(api)
    job_id = submit(api, "ann", "mine").json()["id"]
    for user, seen in (("ann", True), ("bob", True), ("eve", False), ("vic", True)):
        rows = api.ask("GET", "/v1/jobs", user).json()["items"]
        assert [row["id"] for row in rows] == [job_id] * seen
        for path in ("", "/explain", "/timeline", "/events", "/metrics", "/log-sources"):
            assert api.ask("GET", f"/v1/jobs/{job_id}{path}", user).status_code == (200 if seen else 404)
        events = api.ask("GET", "/v1/events", user, params={"follow": "false", "kind": "submitted"}).json()
        assert [event["job_id"] for event in events] == [job_id] * seen
    rows = api.ask("GET", "/v1/jobs", "bob", params={"team": "vision"}).json()["items"]
    assert [row["team"] for row in rows] == ["vision"]
    assert api.ask("GET", "/v1/jobs", "bob", params={"team": "speech"}).json()["items"] == []
    refused = api.ask("POST", f"/v1/jobs/{job_id}/cancel", "bob")
    assert (refused.status_code, refused.json()["detail"]) == (
        403,
        f"{job_id} is ann's job, and bob may not change it",
    )
    assert api.ask("POST", f"/v1/jobs/{job_id}/cancel", "eve").status_code == 404


def test_a_team_mate_forks_and_somebody_else_does_not(api: Api) -> None:
    apply(api)
    job_id = submit(api, "ann", "mine").json()["id"]
    headers = {"Idempotency-Key": "f"}
    answers = {
        user: api.ask("POST", f"/v1/jobs/{job_id}/fork", user, json={"dry_run": True}, headers=headers)
        for user in ("bob", "eve", "vic")
    }
    assert answers["bob"].status_code == 200
    assert answers["bob"].json()["refused"] == [f"{job_id} has no checkpoint yet, so nothing can start from one"]
    assert [answers[user].status_code for user in ("eve", "vic")] == [404, 403]


def test_names_of_a_mates_jobs_are_told_on_nodes(api: Api) -> None:
    apply(api)
    mine, theirs = submit(api, "ann", "mine").json()["id"], submit(api, "eve", "theirs").json()["id"]
    for job_id in (mine, theirs):
        job = api.world.store.get(job_id)
        slot = Slot("t4-000", "lease-t4-000", (int(job_id == theirs),), "t4")
        api.world.store.save(replace(job, held=(slot,), target=(slot,)))
    (node,) = api.ask("GET", "/v1/cluster", "bob").json()["nodes"]
    assert node["jobs"] == {mine: 1, "others": 1}


def test_a_job_is_submitted_for_a_team_of_its_user(api: Api) -> None:
    apply(api)
    found = api.ask("GET", f"/v1/jobs/{submit(api, 'ann', 'a').json()['id']}").json()
    assert (found["team"], found["priority"], found["spec"]["labels"]) == ("vision", "normal", {"of": "vision"})
    refused = submit(api, "eve", "b", team="vision")
    assert (refused.status_code, refused.json()["detail"]) == (
        422,
        "team: vision is no team of eve; accepted: speech",
    )
    assert submit(api, "ann", "c", priority="urgent").status_code == 422
    assert submit(api, "ops", "d").json()["detail"].startswith("team: ops is in no team")


def test_the_same_key_gives_the_same_job_though_teams_fill_it_in(api: Api) -> None:
    apply(api)
    assert submit(api, "ann", "a").json() == submit(api, "ann", "a").json()


def test_users_and_templates_of_others_teams_are_not_told(api: Api) -> None:
    apply(api)
    for user, named in (("ann", {"vision"}), ("eve", {"speech"}), ("vic", {"vision", "speech"})):
        teams = api.ask("GET", "/v1/teams", user).json()["teams"]
        assert {name for name, team in teams.items() if team["users"]} == named
        assert teams["vision"]["guarantee"] == {"t4": 2}
    assert api.ask("GET", "/v1/me", "ann").json()["teams"] == ["vision"]


def test_jobs_of_a_team_that_is_removed_go_on(api: Api) -> None:
    apply(api)
    job_id = submit(api, "ann", "a").json()["id"]
    rest = {"teams": {"speech": FILE["teams"]["speech"], "rest": {"default": True}}}
    assert apply(api, rest, dry_run=True).json()["notes"] == [
        "team vision is removed, and its 1 job goes on for team rest"
    ]
    apply(api, rest)
    assert api.world.store.get(job_id).active
    assert api.world.cycle.teams.now.counted_for("vision") == "rest"
    assert api.ask("GET", f"/v1/jobs/{job_id}", "ann").status_code == 200
