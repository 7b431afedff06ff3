"""Nobody reads or changes what is not theirs: every route, role and owner, one row each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coadapt.api.access import RULES
from coadapt.api.app import make_app
from coadapt.core.api_settings import ApiSettings
from coadapt.core.slot import Slot

from tests.support.api import JOB as JOB_BODY
from tests.support.api import SPEC, Api, DirectScheduler

NOBODY, VIEWER, OTHER, OWNER, OPERATOR = "nobody", "vic", "bob", "ann", "ops"
KEY = {"Idempotency-Key": "k"}
PLAIN = str.maketrans("", "", "{}:")
# What those may do that are named: everybody, those with a token, those who see all, the owner, operators.
ALL = {NOBODY, VIEWER, OTHER, OWNER, OPERATOR}
KNOWN = ALL - {NOBODY}
SEE_ALL = {VIEWER, OWNER, OPERATOR}
CHANGE = {OTHER, OWNER, OPERATOR}
OWN = {OWNER, OPERATOR}
JOB = "/v1/jobs/{job_id}"
STUDY_BODY = {"study": {}, "job": JOB_BODY}
ROUTES: list[tuple[str, str, dict[str, Any], set[str]]] = [
    ("GET", "/healthz", {}, ALL),
    ("GET", "/readyz", {}, ALL),
    ("GET", "/metrics", {}, ALL),
    ("GET", "/static/{path:path}", {}, ALL),
    ("GET", "/sign-in", {}, ALL),
    ("POST", "/v1/page-keys", {}, KNOWN),
    ("GET", "/", {}, KNOWN),
    ("GET", "/jobs", {}, KNOWN),
    ("GET", "/jobs/{job_id}", {}, SEE_ALL),
    ("GET", "/timeline", {}, KNOWN),
    ("GET", "/rounds", {}, KNOWN),
    ("GET", "/teams", {}, KNOWN),
    ("GET", "/nodes", {}, KNOWN),
    ("GET", "/what-if", {}, KNOWN),
    ("GET", "/audit", {}, {OPERATOR}),
    ("GET", "/tokens", {}, CHANGE),
    ("GET", "/v1/health", {}, KNOWN),
    ("GET", "/v1/me", {}, KNOWN),
    ("GET", "/v1/settings", {}, KNOWN),
    ("GET", "/v1/settings/rows", {}, KNOWN),
    ("PATCH", "/v1/settings", {"json": {"debounce_s": 1}}, {OPERATOR}),
    ("POST", "/v1/backups", {}, {OPERATOR}),
    ("GET", "/v1/backups/{name}", {}, {OPERATOR}),
    ("POST", "/v1/prune", {"json": {"dry_run": True}}, {OPERATOR}),
    ("GET", "/v1/jobs", {}, KNOWN),
    ("POST", "/v1/jobs", {"json": JOB_BODY, "headers": KEY}, CHANGE),
    ("GET", JOB, {}, SEE_ALL),
    ("POST", f"{JOB}/cancel", {}, OWN),
    ("POST", f"{JOB}/pause", {"headers": KEY}, OWN),
    ("POST", f"{JOB}/resume", {"json": {}, "headers": KEY}, OWN),
    ("POST", f"{JOB}/requeue", {"headers": KEY}, OWN),
    ("POST", f"{JOB}/fork", {"json": {"dry_run": True}, "headers": KEY}, OWN),
    ("POST", f"{JOB}/priority", {"json": {"priority": "high"}, "headers": KEY}, OWN),
    ("POST", f"{JOB}/hold", {"headers": KEY}, OWN),
    ("POST", f"{JOB}/release", {"headers": KEY}, OWN),
    ("POST", f"{JOB}/bump", {"headers": KEY}, OWN),
    ("POST", f"{JOB}/extend", {"json": {"by_s": 60}, "headers": KEY}, OWN),
    ("POST", f"{JOB}/weight", {"json": {"weight": 0.5}, "headers": KEY}, OWN),
    ("POST", f"{JOB}/keep", {"json": {"trials": [0]}, "headers": KEY}, OWN),
    ("GET", "/v1/studies", {}, CHANGE),
    ("POST", "/v1/studies", {"json": STUDY_BODY, "headers": KEY}, CHANGE),
    ("GET", "/v1/studies/{study}", {}, CHANGE),
    ("POST", "/v1/studies/{study}/cancel", {}, CHANGE),
    ("GET", f"{JOB}/explain", {}, SEE_ALL),
    ("GET", f"{JOB}/options", {}, SEE_ALL),
    ("GET", f"{JOB}/resizes", {}, SEE_ALL),
    ("GET", f"{JOB}/timeline", {}, SEE_ALL),
    ("GET", f"{JOB}/events", {}, SEE_ALL),
    ("GET", f"{JOB}/logs", {}, SEE_ALL),
    ("GET", f"{JOB}/log-place", {}, SEE_ALL),
    ("GET", f"{JOB}/metrics", {}, SEE_ALL),
    ("GET", f"{JOB}/log-sources", {}, SEE_ALL),
    ("GET", f"{JOB}/outputs", {}, SEE_ALL),
    ("POST", f"{JOB}/outputs/contents", {"json": {"names": [["x"]]}}, SEE_ALL),
    ("POST", f"{JOB}/outputs/part", {"json": {"name": ["x"]}}, SEE_ALL),
    ("GET", "/v1/timeline", {}, KNOWN),
    ("GET", "/v1/trace", {}, {OPERATOR}),
    ("GET", "/v1/cluster", {}, KNOWN),
    ("GET", "/v1/machines", {}, KNOWN),
    ("GET", "/v1/rounds", {}, KNOWN),
    ("POST", "/v1/whatif", {"json": {}}, KNOWN),
    ("POST", "/v1/deadline", {"json": {}}, KNOWN),
    ("GET", "/v1/prices", {}, KNOWN),
    ("POST", "/v1/machines/{machine}/{verb}", {}, {OPERATOR}),
    ("POST", "/v1/nodes/{node}/cordon", {"json": {}}, {OPERATOR}),
    ("POST", "/v1/nodes/{node}/drain", {"json": {}}, {OPERATOR}),
    ("POST", "/v1/nodes/{node}/uncordon", {}, {OPERATOR}),
    ("GET", "/v1/windows", {}, KNOWN),
    ("POST", "/v1/windows", {"json": {"begins_s": 4e9, "ends_s": 4.1e9, "nodes": ["t4-000"]}}, {OPERATOR}),
    ("DELETE", "/v1/windows/{window}", {}, {OPERATOR}),
    ("GET", "/v1/packages/{name}", {}, CHANGE),
    ("PUT", "/v1/packages/{name}", {"content": b"x"}, CHANGE),
    ("GET", "/v1/audit", {}, {OPERATOR}),
    ("GET", "/v1/secrets", {}, CHANGE),
    ("PUT", "/v1/secrets/{secret}", {"content": b"x"}, CHANGE),
    ("DELETE", "/v1/secrets/{secret}", {}, CHANGE),
    ("POST", "/v1/secrets/rekey", {}, {OPERATOR}),
    ("GET", "/v1/usage", {}, KNOWN),
    ("GET", "/v1/teams", {}, KNOWN),
    ("PUT", "/v1/teams", {"json": {"file": {}}}, {OPERATOR}),
    ("GET", "/v1/webhooks", {}, CHANGE),
    ("GET", "/pictures/{job_id}.png", {"params": {"until": 0, "signature": "x"}}, ALL),
    ("POST", "/v1/webhooks", {"json": {"name": "w", "url": "https://hooks.example.com/x"}}, CHANGE),
    ("POST", "/v1/webhooks/{webhook}/test", {}, CHANGE),
    ("DELETE", "/v1/webhooks/{webhook}", {}, CHANGE),
    ("GET", "/v1/users", {}, {OPERATOR}),
    ("PUT", "/v1/users/{user}", {"json": {"role": "user"}}, {OPERATOR}),
    ("GET", "/v1/tokens", {}, CHANGE),
    ("POST", "/v1/tokens", {"json": {}}, CHANGE),
    ("DELETE", "/v1/tokens/{token_id}", {}, CHANGE),
]
PLACES = {
    "secret": "A_KEY",
    "webhook": "w",
    "machine": "m0",
    "node": "t4-000",
    "window": "w9",
    "verb": "keep",
    "name": "0" * 64,
    "user": "new",
    "study": "digits:1",
    "token_id": "0" * 12,
    "path": "page.css",
}
# One answer does not end, and two make or end a sign-in; test_events.py and test_sign_in.py ask for them.
APART = {("GET", "/v1/events"), ("POST", "/sign-in"), ("POST", "/sign-out")}


def filled(path: str, job_id: str) -> str:
    """Return a route's path with a place in each of its holes."""
    return path.replace(":path}", "}").format(job_id=job_id, **PLACES)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    api = Api(tmp_path_factory.mktemp("api"))
    yield api
    api.world.store.close()


def test_every_route_that_is_served_stands_in_the_table() -> None:
    assert {(method, path) for method, path, _, _ in ROUTES} | APART == set(RULES)


@pytest.mark.parametrize("asker", sorted(ALL))
@pytest.mark.parametrize(
    ("method", "path", "more", "allowed"), ROUTES, ids=[f"{method} {path}" for method, path, _, _ in ROUTES]
)
def test_who_may_do_it_and_nobody_else(
    api: Api, method: str, path: str, more: dict[str, Any], allowed: set[str], asker: str
) -> None:
    job_id = api.job(OWNER, f"{method}{path.rpartition('/')[2]}{asker}".translate(PLAIN))
    answer = api.ask(
        method,
        filled(path, job_id),
        None if asker == NOBODY else asker,
        **more,
    )
    assert answer.status_code < 500 or path == "/readyz"
    page = RULES[method, path].page
    detail = answer.text if page else answer.json().get("detail", "") if answer.status_code >= 400 else ""
    if asker in allowed:
        assert answer.status_code not in (401, 403)
        assert f"no job {job_id}" not in detail
    elif page and asker == NOBODY:
        assert (answer.status_code, answer.headers["location"][:9]) == (303, "/sign-in?")
    elif page:
        assert answer.status_code == (404 if RULES[method, path].of_job else 403)
        assert (f"no job {job_id}." if RULES[method, path].of_job else "has the role") in detail
    elif asker == NOBODY:
        assert (answer.status_code, detail[:8]) == (401, "no token")
    elif "{job_id}" in path and asker == OTHER:
        assert (answer.status_code, detail) == (404, f"no job {job_id}"), "as for a job that is not there"
    else:
        assert answer.status_code == 403
        assert detail


def test_a_list_has_only_what_its_reader_may_see(api: Api) -> None:
    mine, theirs = api.job("bob", "list"), api.job("ann", "list2")
    for asker, seen in ((VIEWER, {mine, theirs}), (OPERATOR, {mine, theirs}), ("bob", {mine}), ("ann", {theirs})):
        rows = api.ask("GET", "/v1/jobs", asker, params={"limit": 500}).json()["items"]
        assert {row["id"] for row in rows} & {mine, theirs} == seen
    assert api.ask("GET", "/v1/jobs", "bob", params={"owner": "ann"}).json() == {"items": [], "next": None}


def test_whose_a_job_is_does_not_depend_on_what_its_sender_says(api: Api) -> None:
    body, headers = {**JOB_BODY, "spec": {**SPEC, "name": "whose"}}, {"Idempotency-Key": "whose"}
    job_id = api.ask("POST", "/v1/jobs", "bob", json=body, headers=headers).json()["id"]
    assert api.service.whose(job_id) == ("bob", "")
    told = api.ask("POST", "/v1/jobs", "bob", json={**body, "owner": "ann"}, headers=headers)
    assert (told.status_code, told.json()["detail"]) == (422, "owner: unknown field")


def test_a_user_sees_how_full_nodes_are_and_no_names_of_others_jobs(tmp_path: Path) -> None:
    api = Api(tmp_path)
    mine, theirs = api.job("bob", "mine"), api.job("ann", "theirs")
    for job_id in (mine, theirs):
        job = api.world.store.get(job_id)
        slot = Slot("t4-000", "lease-t4-000", (int(job_id == theirs),), "t4")
        api.world.store.save(replace(job, held=(slot,), target=(slot,)))
    (node,) = api.ask("GET", "/v1/cluster", "bob").json()["nodes"]
    assert node["jobs"] == {mine: 1, "others": 1}
    assert [device["tenants"] for device in node["devices"][:2]] == [{mine: 1.0}, {"others": 1.0}]
    assert set(api.ask("GET", "/v1/cluster", "vic").json()["nodes"][0]["jobs"]) == {mine, theirs}
    api.world.store.close()


def test_only_a_trusted_proxy_says_who_asks(tmp_path: Path) -> None:
    api = Api(tmp_path)

    def asked(proxies: tuple[str, ...], user: str) -> tuple[int, str]:
        settings = ApiSettings(trusted_proxies=proxies)  # the client of these tests is 127.0.0.1
        api.app = make_app(DirectScheduler(api.service), settings)
        answer = api.ask("GET", "/v1/me", None, headers={"X-Forwarded-User": user})
        return answer.status_code, str(answer.json().get("user", answer.json().get("detail")))

    assert asked(("127.0.0.1",), "bob") == (200, "bob")
    assert asked(("127.0.0.1",), "eve") == (401, "there is no user eve; ask an operator")
    assert asked(("10.0.0.1",), "bob")[0] == 401, "anybody may send such a header"
    api.service.put_user("bob", "user", True)
    assert asked(("127.0.0.1",), "bob") == (401, "the user bob is disabled; ask an operator")
    api.world.store.close()
