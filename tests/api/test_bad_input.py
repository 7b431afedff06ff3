"""What is wrong with a request, each with its status and its one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import JOB, SPEC, Api

KEY = {"Idempotency-Key": "k"}
DAY_S = 86_400.0


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def told(api: Api, status: int, method: str, path: str, user: str | None = "ann", **more: Any) -> dict[str, Any]:
    answer = api.ask(method, path, user, **more)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["status"] == status
    assert "\n" not in body["detail"]
    return body


TOKENS = [
    ("Basic abc", "the scheme Basic is not accepted; send `Authorization: Bearer TOKEN`"),
    ("Bearer abc", "the token is malformed; one looks like coadapt_ID_SECRET"),
    (f"Bearer coadapt_{'0' * 12}_{'x' * 43}", "the token is unknown; `coadapt login URL` takes a new one"),
]


@pytest.mark.parametrize(("header", "detail"), TOKENS, ids=["scheme", "malformed", "unknown"])
def test_a_token_that_is_none(api: Api, header: str, detail: str) -> None:
    body = told(api, 401, "GET", "/v1/me", None, headers={"Authorization": header})
    assert body["detail"] == detail


def test_a_token_that_has_expired_was_revoked_or_is_of_a_disabled_user(api: Api) -> None:
    issued = api.service.issue_token("ann", "short", 1.0)
    api.tokens["ann"] = issued["token"]
    assert api.ask("GET", "/v1/me", "ann").json()["token_id"] == issued["id"]
    api.world.clock.forward(DAY_S)
    api.app.state.context.forget_tokens()
    assert told(api, 401, "GET", "/v1/me")["detail"].startswith(f"the token {issued['id']} has expired")
    token_id = api.tokens["bob"].split("_")[1]
    assert api.ask("DELETE", f"/v1/tokens/{token_id}", "bob").json() == {"changed": True}
    assert told(api, 401, "GET", "/v1/me", "bob")["detail"].startswith(f"the token {token_id} was revoked")
    api.ask("PUT", "/v1/users/vic", "ops", json={"role": "viewer", "disabled": True})
    assert told(api, 401, "GET", "/v1/me", "vic")["detail"] == "the user vic is disabled; ask an operator"


def test_tokens_of_others_and_the_last_operator_are_safe(api: Api) -> None:
    token_id = api.tokens["bob"].split("_")[1]
    assert told(api, 404, "DELETE", f"/v1/tokens/{token_id}", "ann")["detail"] == f"no token {token_id}"
    assert [row["user"] for row in api.ask("GET", "/v1/tokens", "ann").json()] == ["ann"]
    assert "digest" not in api.ask("GET", "/v1/tokens", "ops").text
    made = told(api, 403, "POST", "/v1/tokens", "ann", json={"user": "ops"})
    assert made["detail"] == "ann has the role user; only an operator makes tokens for others"
    last = told(api, 422, "PUT", "/v1/users/ops", "ops", json={"role": "user"})
    assert last["detail"] == "ops is the only operator; make another one first"


DEEP = b"[" * 65 + b"]" * 65
BODIES: list[tuple[str, int, dict[str, Any], str]] = [
    ("no JSON", 400, {"content": b"{"}, "the body is not JSON: "),
    ("not text", 400, {"content": b"\xff\xfe"}, "the body is not text in UTF-8"),
    ("no object", 422, {"json": [1]}, "the body is not a JSON object"),
    ("10 MiB", 413, {"content": b" " * (10 << 20)}, "the body is larger than 1048576 bytes"),
    ("65 levels", 400, {"content": DEEP}, "the body has more than 64 levels of lists and objects"),
    ("NaN", 400, {"content": b'{"spec": {"grace_s": NaN}}'}, "the body has NaN in it, which is no JSON number"),
    ("unknown field", 422, {"json": {**JOB, "x": 1}}, "x: unknown field"),
    ("unknown field within", 422, {"json": {**JOB, "spec": {**SPEC, "x": 1}}}, "spec.x: unknown field"),
    ("wrong type", 422, {"json": {"spec": SPEC, "package": 7}}, "package: 7 is not text"),
    (
        "wrong type within",
        422,
        {"json": {**JOB, "spec": {**SPEC, "grace_s": "x"}}},
        "spec.grace_s: x is not a number",
    ),
    (
        "out of range",
        422,
        {"json": {**JOB, "spec": {**SPEC, "max_failures": -1}}},
        "spec.max_failures: -1 is not a",
    ),
    ("missing", 422, {"json": {}}, "spec: missing"),
    ("no package", 422, {"json": {"spec": SPEC}}, "package: missing"),
    ("unknown package", 422, {"json": {"spec": SPEC, "package": "0" * 64}}, f"package: {'0' * 64} is not in "),
]


@pytest.mark.parametrize(("what", "status", "more", "detail"), BODIES, ids=[what for what, *_ in BODIES])
def test_a_body_that_is_wrong(api: Api, what: str, status: int, more: dict[str, Any], detail: str) -> None:
    assert told(api, status, "POST", "/v1/jobs", headers=KEY, **more)["detail"].startswith(detail)
    assert api.world.store.page(None, 10) == [], "nothing is half done"


def test_a_body_of_strings_with_brackets_is_not_deep(api: Api) -> None:
    body = {**JOB, "spec": {**SPEC, "args": ["[" * 100, '\\"[[', "]"]}}
    assert api.ask("POST", "/v1/jobs", "ann", json=body, headers=KEY).status_code == 201


def test_a_key_that_comes_again(api: Api) -> None:
    first = api.ask("POST", "/v1/jobs", "ann", json=JOB, headers=KEY).json()
    assert api.ask("POST", "/v1/jobs", "ann", json=JOB, headers=KEY).json() == first
    other = told(api, 422, "POST", "/v1/jobs", json={**JOB, "spec": {**SPEC, "args": ["x"]}}, headers=KEY)
    assert other["detail"] == "Idempotency-Key: a-1 was submitted with it, and this job differs in args"
    assert told(api, 422, "POST", "/v1/jobs", json=JOB)["detail"] == "Idempotency-Key: missing"
    theirs = api.ask("POST", "/v1/jobs", "bob", json=JOB, headers=KEY)
    assert (theirs.status_code, theirs.json() != first) == (201, True), "users know nothing of each other's keys"


def test_cursors_lead_through_all_jobs_once_and_fit_only_their_query(api: Api) -> None:
    made = [api.job("ann", f"j{n}") for n in range(7)]
    seen, cursor = list[str](), None
    while True:
        page = api.ask(
            "GET", "/v1/jobs", "ann", params={"limit": 3} | ({"cursor": cursor} if cursor else {})
        ).json()
        seen += [row["id"] for row in page["items"]]
        if (cursor := page["next"]) is None:
            break
        stale = cursor
    assert seen == made[::-1]
    for params in ({"cursor": "!"}, {"cursor": "e30"}, {"cursor": stale, "name": "j1"}):
        body = told(api, 400, "GET", "/v1/jobs", params=params)
        assert body["detail"] == "cursor: this is not the `next` of an answer to the same query"
        assert body["field"] == "cursor"


NODES: list[tuple[int, str, str, dict[str, Any], str]] = [
    (404, "POST", "/v1/nodes/m7/drain", {"json": {}}, "no node m7; `coadapt node list` shows all"),
    (
        422,
        "POST",
        "/v1/nodes/t4-000/drain",
        {"json": {"deadline_s": -5}},
        "deadline_s: -5 s from now is in the past; it is accepted above 0",
    ),
    (422, "POST", "/v1/nodes/t4-000/drain", {"json": {"deadline_s": "10m"}}, "deadline_s: 10m is not a number"),
    (422, "POST", "/v1/nodes/t4-000/cordon", {"json": {"x": 1}}, "x: unknown field"),
    (404, "POST", "/v1/nodes/m7/uncordon", {}, "no node m7; `coadapt node list` shows all"),
    (422, "POST", "/v1/windows", {"json": {"begins_s": 1}}, "ends_s: missing"),
    (422, "POST", "/v1/windows", {"json": {"begins_s": 1, "ends_s": 2, "nodes": ["t4-000"]}}, "to: 1970-01-01"),
    (404, "DELETE", "/v1/windows/w9", {}, "no maintenance window w9; `coadapt node window list` shows all"),
]


@pytest.mark.parametrize(("status", "method", "path", "more", "detail"), NODES)
def test_an_order_for_a_node_that_cannot_be(
    api: Api, status: int, method: str, path: str, more: dict[str, Any], detail: str
) -> None:
    assert told(api, status, method, path, "ops", **more)["detail"].startswith(detail)
    assert api.service.windows() == []
    assert api.service.parts.closing.snapshot.closed == {}, "nothing half-done is left"


def test_a_node_that_is_drained_twice_says_that_it_is_drained_already(api: Api) -> None:
    path, body = "/v1/nodes/t4-000/drain", {"deadline_s": 60.0, "why": "a fan"}
    first = api.ask("POST", path, "ops", json=body).json()
    assert first["changed"]
    again = api.ask("POST", path, "ops", json=body).json()
    assert (again["changed"], again["told"].endswith(": a fan already")) == (False, True)
    (node,) = api.ask("GET", "/v1/cluster", "vic").json()["nodes"]
    assert node["closed"].startswith("drained by ops, until ")


PLACES: list[tuple[int, str, str, dict[str, Any], str]] = [
    (404, "GET", "/v1/nothing", {}, "there is no /v1/nothing here"),
    (405, "DELETE", "/v1/jobs", {}, "/v1/jobs does not take DELETE"),
    (404, "GET", "/v1/jobs/none-1", {}, "no job none-1"),
    (422, "GET", "/v1/jobs", {"params": {"limit": 0}}, "limit: 0 is not a number of at least 1"),
    (422, "GET", "/v1/jobs", {"params": {"limit": "x"}}, "limit: x is not a whole number"),
    (422, "GET", "/v1/jobs", {"params": {"phase": "odd"}}, "phase.0: odd is not one of submitted, profiling"),
    (422, "PUT", "/v1/packages/evil", {"content": b"x"}, "name: evil is not "),
    (422, "PUT", f"/v1/packages/{'0' * 64}", {"content": b"x"}, f"package: {'0' * 64} is not the SHA-256 of its"),
    (400, "GET", "/v1/events", {"headers": {"Last-Event-ID": "x"}}, "Last-Event-ID: x is not the number of an"),
]


@pytest.mark.parametrize(("status", "method", "path", "more", "detail"), PLACES)
def test_a_place_or_a_parameter_that_is_wrong(
    api: Api, status: int, method: str, path: str, more: dict[str, Any], detail: str
) -> None:
    assert told(api, status, method, path, **more)["detail"].startswith(detail)


def test_what_cannot_be_stored_now_is_told_to_come_again(api: Api) -> None:
    from coadapt.scheduler.store.failures import StoreFailure

    api.service.parts.watch.wrote(StoreFailure("the store cannot be written: disk is full"), 0.1)
    body = told(api, 503, "POST", "/v1/jobs", json=JOB, headers=KEY)
    assert body["detail"].startswith("the scheduler takes no changes now; it is degraded since ")
    assert api.ask("GET", "/v1/jobs", "ann").status_code == 200
    api.world.clock.forward(DAY_S)
    api.app.state.context.forget_tokens()
    assert api.ask("GET", "/v1/jobs", "ann").status_code == 200, "also when it is time to note the token's use"
    assert api.ask("GET", "/readyz", None).status_code == 503
    assert api.ask("GET", "/healthz", None).status_code == 200


FAR = 2**53
SENT: list[tuple[int, str, str, dict[str, Any], str]] = [
    (422, "POST", "/v1/jobs", {"json": {**JOB, "script_key": "k" * 201}}, "script_key: "),
    (422, "POST", "/v1/jobs", {"json": {**JOB, "script_key": "\0"}}, "script_key: "),
    (422, "POST", "/v1/jobs", {"json": {**JOB, "package": "0" * 65}}, "package: "),
    (422, "POST", "/v1/tokens", {"json": {"label": "a\0"}}, "label: "),
    (422, "POST", "/v1/tokens", {"json": {"user": "a\0"}}, "user: "),
    (400, "GET", "/v1/jobs/a%00b", {}, "the URL has a NUL character in it"),
    (400, "GET", "/v1/jobs", {"params": {"name": "a\0"}}, "the URL has a NUL character in it"),
    (400, "GET", "/v1/jobs/{job}/logs", {"headers": {"Last-Event-ID": "9" * 30}}, "Last-Event-ID: 999"),
    (422, "POST", "/v1/jobs/{job}/outputs/part", {"json": {"name": ["a"], "offset": FAR + 1}}, "offset: "),
    (404, "POST", "/v1/jobs/{job}/outputs/part", {"json": {"name": ["a\0b"]}}, "{job} has no output a"),
    (404, "POST", "/v1/jobs/{job}/outputs/part", {"json": {"name": ["a\0b", "c"]}}, "{job} has no output a"),
    (404, "POST", "/v1/jobs/{job}/outputs/part", {"content": b'{"name": ["\\ud800"]}'}, "{job} has no output "),
]


@pytest.mark.parametrize(("status", "method", "path", "more", "detail"), SENT)
def test_what_no_file_and_no_store_takes(
    api: Api, status: int, method: str, path: str, more: dict[str, Any], detail: str
) -> None:
    job = with_output(api)
    found = told(api, status, method, path.format(job=job), **({"headers": KEY} | more))
    assert found["detail"].startswith(detail.format(job=job))


def with_output(api: Api) -> str:
    """Return a job of ann's with one output and a line of a log."""
    job = api.job("ann")
    folder, logs = Path(api.world.settings.outputs_url(job, None)), api.world.settings.log_dir(job)
    for one in (folder, logs):
        one.mkdir(parents=True)
    (folder / "a").write_text("abc")
    (logs / "rank-0.log").write_text("a line\n")
    return job


def test_a_place_behind_the_end_has_nothing(api: Api) -> None:
    job = with_output(api)
    for offset, content in ((0, b"abc"), (2, b"c"), (3, b""), (FAR, b"")):
        answer = api.ask("POST", f"/v1/jobs/{job}/outputs/part", "ann", json={"name": ["a"], "offset": offset})
        assert (answer.status_code, answer.content) == (200, content)
    for offset, text in ((0, "a line\n"), (7, ""), (8, ""), (FAR, "")):
        found = api.ask("GET", f"/v1/jobs/{job}/logs", "ann", params={"offset": offset}).json()
        assert (found["text"], found["next"]) == (text, max(offset, 7))


def test_an_output_whose_name_is_no_utf8_can_be_had(api: Api) -> None:
    job = with_output(api)
    folder = Path(api.world.settings.outputs_url(job, None))
    (folder / "\udcff.pt").write_text("x")
    body = b'{"names": [["\\udcff.pt"], ["\\ud800"]]}'
    found = api.ask("POST", f"/v1/jobs/{job}/outputs/contents", "ann", content=body).json()
    assert found == {"contents": ["eA==", None]}
