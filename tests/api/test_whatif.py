"""What would be, asked over HTTP: the answer, and what is wrong with a question, each in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from coadapt.core.identity import Reader
from coadapt.core.teams_file import from_values

from tests.support.api import SPEC, Api
from tests.support.cycles import nodes_of
from tests.support.rounds import cluster

STORY = """
submit a unprofiled rigid=2
submit b unprofiled rigid=4
wish a t4-000:2
go
"""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    settings = api.world.settings
    settings.take(settings.model_copy(update={"policy": "fifo", "forecast_cpu_s": 0.0}))
    yield api
    api.service.parts.asker.stop()
    api.world.store.close()


def planned(api: Api) -> None:
    """Let the world's last round be the one from which answers begin."""
    done = api.world.cycle.last_round
    assert done is not None
    api.service.parts.forecaster.planned(done)


BAD = [
    ({}, "whatif: nothing would be otherwise; give a job, nodes, or a policy"),
    ({"nodes": "10000x a100:8"}, "nodes: "),
    ({"nodes": "600x a100:8, 600x t4:4"}, "nodes: 1200 nodes are more than 1000; at most 1000 are accepted"),
    ({"nodes": "many"}, "nodes: 'many' is not of the form '2x t4:4'"),
    ({"nodes": "-2x t4:4"}, "nodes: -2x t4:4: the cluster has 1 such node"),
    ({"nodes": "-1x t4:4"}, "whatif: no node would be left"),
    ({"policy": "wisest"}, "policy: 'wisest' is unknown; accepted: anticipatory, "),
    ({"policy": "fifo", "policy_options": {"speed": 3}}, "policy fifo: option 'speed' is unknown; accepted: "),
    ({"without": ["t4-999"]}, "without: 't4-999' is no node of this cluster; its nodes are t4-000"),
    ({"like": ["z-99"]}, "no job z-99"),
    ({"team": {"vision": {"cap.a100": 32}}}, "team: this cluster has no teams"),
    ({"teams": {"teams": {"a": {"share": 0}}}}, "teams.a.share: 0 is not a number above 0"),
    ({"teams": {"teams": {"a": {"cap": {"h100": 1}}}}}, "teams.a.cap.h100: h100 is no GPU type of "),
    ({"teams": {}, "team": {"a": {"share": 2}}}, "teams: a whole file is given, and team changes a part of it"),
    ({"teams": "teams: [a"}, "teams: line 1"),
    ({"teams": "a list"}, "teams: it is not a mapping of fields, such as teams: {vision: {users: [ada]}}"),
    ({"teams": "teams: {a: {share: 0}}"}, "teams.a.share: 0 is not a number above 0"),
    ({"teams": "!!python/object:os.system {}"}, "teams: "),
    ({"teams": "a" * 300_000}, "teams: "),
    ({"teams": 3}, "teams: "),
    ({"submit": [{"spec": {"name": "x y", "script": "t.py"}}]}, "submit.0.spec.name: "),
    ({"submit": [{"spec": SPEC | {"resources": {"gpus": 0}}}]}, "submit.0.spec.resources.gpus: "),
    ({"depth": 3}, "depth: unknown field"),
]


@pytest.mark.parametrize(("body", "detail"), BAD, ids=[detail[:40] for _, detail in BAD])
def test_what_cannot_be_is_told_in_one_sentence(api: Api, body: dict[str, Any], detail: str) -> None:
    api.world.play(STORY)
    planned(api)
    answer = api.ask("POST", "/v1/whatif", "ann", json=body)
    assert answer.status_code in (404, 422), answer.text
    told = answer.json()["detail"]
    assert told.startswith(detail)
    assert "\n" not in told


def test_before_the_first_round_nobody_can_say(api: Api) -> None:
    answer = api.ask("POST", "/v1/whatif", "ann", json={"policy": "fifo"})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "whatif: no round was planned yet; ask again after the first one"


def test_more_nodes_let_the_waiting_job_start_and_a_user_reads_only_of_own_jobs(api: Api) -> None:
    api.world.play(STORY)
    planned(api)
    answer = api.ask("POST", "/v1/whatif", "ops", json={"nodes": "+1x t4:4"})
    assert answer.status_code == 200, answer.text
    view = answer.json()
    rows = {row["id"]: row for row in view["jobs"]}
    waits = rows[api.world.ids["b"]]
    assert waits["after"]["start_s"] is not None
    assert waits["before"]["end_s"] is None
    assert view["worlds"] >= 1
    assert view["before"]["units"] is None  # rounds of fifo have no prices
    assert view["text"].endswith(".")
    own = api.ask("POST", "/v1/whatif", "ann", json={"nodes": "+1x t4:4"}).json()
    assert own["jobs"] == []
    assert "2 jobs of others are counted and not shown" in own["notes"]


def test_a_job_that_would_get_no_gpus_is_named(api: Api) -> None:
    api.world.play(STORY)
    planned(api)
    view = api.ask("POST", "/v1/whatif", "ops", json={"nodes": "+1x a100:1", "without": ["t4-000"]}).json()
    a = api.world.ids["a"]
    assert {row["id"]: row for row in view["jobs"]}[a]["after"]["why_no_start"]
    assert view["text"] == f"{a} would get no GPUs in sight."


FILE = {"teams": {"all": {"default": True, "cap": {"t4": 2}}}}


@pytest.mark.parametrize(
    "file", [FILE, "teams:\n  all:\n    default: true\n    cap: {t4: 2}\n"], ids=["values", "text"]
)
def test_a_whole_file_of_teams_is_tried_where_none_counts(api: Api, file: object) -> None:
    api.world.play("submit a unprofiled rigid=2\nsubmit b unprofiled rigid=2\nwish a t4-000:2\ngo")
    planned(api)
    answer = api.ask("POST", "/v1/whatif", "ops", json={"teams": file})
    assert answer.status_code == 200, answer.text
    (waits,) = [row for row in answer.json()["jobs"] if row["id"] == api.world.ids["b"]]
    before, after = waits["before"]["start_s"], waits["after"]["start_s"]
    assert before is not None
    assert after is None or after > before, "the cap lets only one of them train at a time"
    assert api.service.parts.cycle.teams.now is None, "nothing is applied by asking"


def test_a_job_like_another_starts_where_there_is_room(api: Api) -> None:
    api.world.play(STORY)
    planned(api)
    view = api.ask("POST", "/v1/whatif", "ops", json={"like": [api.world.ids["a"]]}).json()
    (new,) = [row for row in view["jobs"] if row["new"]]
    assert new["before"] is None
    assert new["name"] == "a"
    assert any("nothing is known of how long a takes" in note for note in view["notes"])


def test_a_state_that_changes_meanwhile_is_told(api: Api) -> None:
    api.world.play(STORY)
    planned(api)
    forecaster = api.service.parts.forecaster
    state = forecaster.state()
    assert state is not None
    api.world.all = cluster("2x t4:4")
    api.world.nodes.snapshot = nodes_of(api.world.all)
    desk = cast(Any, api.service.desks.methods["whatif"]).__self__
    api.world.play("go")
    planned(api)
    assert desk._changed_since(state, None) == ["the cluster's nodes have changed meanwhile; ask again"]


def test_what_has_ended_meanwhile_is_not_named_to_others(api: Api) -> None:
    api.world.play(STORY)
    planned(api)
    forecaster = api.service.parts.forecaster
    state = forecaster.state()
    assert state is not None
    api.world.play("cancel b\ngo")
    planned(api)
    desk = cast(Any, api.service.desks.methods["whatif"]).__self__
    assert desk._changed_since(state, None) == [f"{api.world.ids['b']} has ended meanwhile"]
    assert desk._changed_since(state, Reader("ann")) == ["a job has ended meanwhile"]


def test_a_new_job_counts_for_the_team_of_who_asks(api: Api) -> None:
    api.world.play(STORY)
    planned(api)
    api.service.parts.cycle.teams.now = from_values(
        {"teams": {"vision": {"users": ["ann"], "priorities": ["low"]}, "rest": {"default": True}}}
    )
    view = api.ask("POST", "/v1/whatif", "ann", json={"submit": [{"spec": SPEC}]}).json()
    (new,) = [row for row in view["jobs"] if row["new"]]
    assert (new["owner"], new["team"]) == ("ann", "vision")
    body = {"submit": [{"spec": SPEC | {"team": "rest"}}]}
    answer = api.ask("POST", "/v1/whatif", "ann", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"] == "team: rest is no team of ann; accepted: vision"


def test_an_array_is_asked_for_as_its_jobs(api: Api) -> None:
    api.world.play(STORY)
    planned(api)
    spec = SPEC | {"args": ["--lr={lr}"], "array": {"grid": {"lr": [0.1, 0.2, 0.3]}}}
    view = api.ask("POST", "/v1/whatif", "ann", json={"submit": [{"spec": spec}]}).json()
    assert len([row for row in view["jobs"] if row["new"]]) == 3
    many = SPEC | {"args": ["--lr={lr}"], "array": {"grid": {"lr": list(range(51))}}}
    answer = api.ask("POST", "/v1/whatif", "ann", json={"submit": [{"spec": many}]})
    assert answer.json()["detail"] == "submit: 51 jobs are too many; at most 50 are accepted"


def test_the_page_asks_with_the_nodes_that_are_here(api: Api) -> None:
    api.world.play(STORY)
    page = api.ask("GET", "/what-if", "ops")
    assert page.status_code == 200
    assert "machine-t4-000" in page.text or "t4-000" in page.text
    assert "whatif.js" in page.text
    assert '<input type="file" id="file"' in page.text
    assert '<textarea name="teams"' in page.text


DUE = """
submit a unprofiled rigid=4
submit b unprofiled rigid=4 deadline=1h
wish a t4-000:4
go
"""


def test_whether_a_deadline_holds_is_told_in_words_and_to_whom_it_belongs(api: Api) -> None:
    api.world.play(DUE)
    planned(api)
    b = api.world.ids["b"]
    answer = api.ask("POST", "/v1/deadline", "ops", json={"job": b})
    assert answer.status_code == 200, answer.text
    view = answer.json()
    assert view["answer"] == "measured_first", "nothing is known of how long it takes"
    assert view["gives"] == []
    assert api.ask("POST", "/v1/deadline", "ann", json={"job": b}).status_code == 404


BAD_DEADLINES = [
    ({}, "job: one of job and submit is accepted"),
    ({"job": "a-1", "submit": {"spec": SPEC}}, "job: one of job and submit is accepted"),
    ({"job": "z-99"}, "no job z-99"),
    ({"submit": {"spec": SPEC}}, "job: "),
    ({"submit": {"spec": SPEC | {"deadline": "-2h"}}}, "submit.spec.deadline"),
    ({"depth": 3}, "depth: unknown field"),
]


@pytest.mark.parametrize(("body", "detail"), BAD_DEADLINES, ids=[detail[:40] for _, detail in BAD_DEADLINES])
def test_a_question_on_a_deadline_that_cannot_be_is_told(api: Api, body: dict[str, Any], detail: str) -> None:
    api.world.play(DUE)
    planned(api)
    answer = api.ask("POST", "/v1/deadline", "ops", json=body)
    assert answer.status_code in (404, 422), answer.text
    assert detail in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]


def test_a_job_that_takes_no_part_has_no_end_to_be_told(api: Api) -> None:
    api.world.play(DUE + "\npause b\ngo")
    planned(api)
    b = api.world.ids["b"]
    answer = api.ask("POST", "/v1/deadline", "ops", json={"job": b})
    assert answer.json()["detail"] == f"job: {b} takes no part in rounds now, so that nobody can say when it ends"
    answer = api.ask("POST", "/v1/deadline", "ops", json={"job": api.world.ids["a"]})
    assert answer.json()["detail"] == (
        f"job: {api.world.ids['a']} has no deadline; `deadline` of its job file says one"
    )


MEASURED = """
submit a types=t4 rigid=2 deadline=1h
go
measured a t4
wish a t4-000:2
go
runs a
report a t4
after 60
go
? a running
"""


def test_a_measured_job_is_told_whether_its_deadline_holds(api: Api) -> None:
    api.world.play(MEASURED)
    planned(api)
    view = api.ask("POST", "/v1/deadline", "ops", json={"job": api.world.ids["a"]}).json()
    assert view["answer"] == "on_time"
    assert view["end_low_s"] <= view["end_s"] <= view["end_high_s"] < view["due_s"]
    assert view["gives"] == []
    spec = SPEC | {"deadline": "1h"}
    view = api.ask("POST", "/v1/deadline", "ops", json={"submit": {"spec": spec}}).json()
    assert view["answer"] == "measured_first", "its script never ran here"
    assert view["known_s"] is not None
