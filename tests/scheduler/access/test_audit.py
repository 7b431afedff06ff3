"""Every change through the API is told in a log that nobody can change unseen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coadapt.api.access import RULES
from coadapt.core.audit import AuditRow, ChainCheck
from coadapt.core.retention_settings import RetentionSettings
from coadapt.scheduler.access.audit import BURST, AuditLog
from coadapt.scheduler.runtime.degraded import StoreWatch
from coadapt.scheduler.store.doctor import examine
from coadapt.scheduler.store.failures import StoreFailure
from coadapt.scheduler.store.store import Store

from tests.api.test_access import ROUTES, filled
from tests.support.api import JOB, SPEC, Api
from tests.support.stores import raw

KEY = {"Idempotency-Key": "k"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def rows(api: Api, **chosen: Any) -> list[dict[str, Any]]:
    return list(
        api.ask("GET", "/v1/audit", params={"oldest_first": "true", "limit": 1000, **chosen}).json()["items"]
    )


def store_of(api: Api) -> Path:
    return Path(str(api.world.store.database.url).removeprefix("sqlite:///"))


def test_a_change_tells_who_from_where_what_and_what_became_of_it(api: Api) -> None:
    body = {**JOB, "spec": {**SPEC, "env": {"HF_TOKEN": "hidden-value"}}}
    answer = api.ask("POST", "/v1/jobs", "ann", json=body, headers={**KEY, "X-Request-ID": "req-1"})
    job_id = answer.json()["id"]
    api.ask("POST", f"/v1/jobs/{job_id}/pause", "ann", headers=KEY)
    api.ask("PATCH", "/v1/settings", json={"debounce_s": 3})
    token = api.ask("POST", "/v1/tokens", "bob", json={"label": "laptop"}).json()
    submit, pause, settings, issue = rows(api)
    assert answer.headers["X-Request-ID"] == submit["request"] == "req-1"
    assert (submit["user"], submit["role"], submit["origin"]) == ("ann", "user", "127.0.0.1")
    assert (submit["verb"], submit["target"], submit["outcome"]) == ("job.submit", job_id, "done")
    assert submit["detail"]["after"]["owner"] == "ann"
    assert pause["detail"] == {"before": {"paused": False}, "after": {"paused": True}}
    assert settings["detail"] == {"before": {"debounce_s": 0.5}, "after": {"debounce_s": 3.0}}
    assert issue["detail"]["after"]["label"] == "laptop"
    kept = store_of(api).read_bytes() + store_of(api).with_name("jobs.sqlite-wal").read_bytes()
    assert token["token"].encode() not in kept
    assert all("hidden-value" not in str(row) for row in rows(api))


@pytest.mark.parametrize(
    ("method", "path", "more"),
    [(method, path, more) for method, path, more, _ in ROUTES if RULES[method, path].changes],
    ids=[f"{method} {path}" for method, path, _, _ in ROUTES if RULES[method, path].changes],
)
def test_each_change_and_each_refused_try_of_it_has_one_row(
    api: Api, method: str, path: str, more: dict[str, Any]
) -> None:
    job_id = api.job("ann")
    for asker in (None, "vic", "ops"):
        known = len(rows(api))
        answer = api.ask(method, filled(path, job_id), asker, **more)
        found = rows(api)[known:]
        only_says = more.get("json") == {"dry_run": True} and asker == "ops"
        assert len(found) == (0 if only_says else 1), answer.text
        if answer.status_code >= 400 and asker != "ops":
            assert found[0]["outcome"].startswith(str(answer.status_code))
            assert found[0]["user"] == (asker or "")


def test_a_job_of_somebody_else_is_a_refused_try_too(api: Api) -> None:
    job_id = api.job("ann")
    assert api.ask("POST", f"/v1/jobs/{job_id}/cancel", "bob").status_code == 404
    (row,) = rows(api)
    assert (row["user"], row["target"], row["outcome"]) == ("bob", job_id, f"404: no job {job_id}")


def test_refused_tries_do_not_fill_the_disk_and_hide_nothing_of_others(api: Api) -> None:
    for _ in range(BURST + 40):
        api.ask("POST", "/v1/prune", None, json={})
    api.ask("POST", "/v1/prune", "bob", json={})
    found = rows(api)
    assert [row["user"] for row in found] == [""] * BURST + ["bob"]
    api.world.clock.forward(60)
    api.ask("POST", "/v1/prune", None, json={})
    assert rows(api)[-1]["detail"] == {"after": {"left_out_before": 40}}


def test_refused_tries_wait_for_no_store_that_does_not_write(api: Api) -> None:
    watch = api.service.parts.watch
    watch.wrote(StoreFailure("no room"), 1.0)
    api.ask("POST", "/v1/prune", "bob", json={})
    assert rows(api) == []
    watch.wrote(None, 0.0)
    api.ask("POST", "/v1/prune", "bob", json={})
    assert [row["detail"] for row in rows(api)] == [{"after": {"left_out_before": 1}}]


def test_filters_and_pages_give_what_fits(api: Api) -> None:
    one, two = api.job("ann", "one"), api.job("bob", "two")
    for job_id, user in ((one, "ann"), (two, "bob"), (one, "ops")):
        api.ask("POST", f"/v1/jobs/{job_id}/{'requeue' if user == 'ops' else 'pause'}", user, headers=KEY)
    assert [row["user"] for row in rows(api, job=one)] == ["ann", "ops"]
    assert [row["target"] for row in rows(api, user="bob")] == [two]
    assert [row["verb"] for row in rows(api, verb="job.pause")] == ["job.pause", "job.pause"]
    assert len(rows(api, verb="job")) == 3
    assert rows(api, since_s=api.world.clock.wall_s() + 1) == []
    first = api.ask("GET", "/v1/audit", params={"limit": 2}).json()
    second = api.ask("GET", "/v1/audit", params={"limit": 2, "cursor": first["next"]}).json()
    assert [row["number"] for row in first["items"] + second["items"]] == [3, 2, 1]
    assert second["next"] is None
    forged = api.ask("GET", "/v1/audit", params={"limit": 2, "user": "bob", "cursor": first["next"]})
    assert forged.status_code == 400


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("update audit set user='eve' where number=2", "row 2 was changed after it was written"),
        ("update audit set detail='{}' where number=1", "row 1 was changed after it was written"),
        ("delete from audit where number=2", "row 3 does not follow row 1: rows between them are missing"),
        (
            "delete from audit where number=1",
            "rows before row 2 are missing, and no row says that they were removed",
        ),
        ("delete from audit where number=4", "rows after row 3 are missing: the newest one was row 4"),
    ],
)
def test_doctor_names_the_first_row_that_was_tampered_with(tmp_path: Path, harm: str, told: str) -> None:
    api = Api(tmp_path)
    for label in "abcd":
        api.ask("POST", "/v1/tokens", "ann", json={"label": label})
    where = store_of(api)
    api.world.store.close()
    assert examine(where).findings == []
    raw(where, harm)
    assert [(one.kind, one.text) for one in examine(where).findings] == [("audit", told)]


def test_what_retention_removes_is_told_and_the_rest_can_still_be_verified(tmp_path: Path) -> None:
    api = Api(tmp_path)
    limits = RetentionSettings(most_audit=20)
    api.world.settings.take(api.world.settings.model_copy(update={"retention": limits}))
    for at in range(50):
        api.ask("POST", "/v1/tokens", "ann", json={"label": str(at)})
    removed = {one.kind: one.count for one in api.service.parts.pruning.prune()}
    assert removed["rows of the audit log"] == 30
    assert [row["number"] for row in rows(api)][:2] == [31, 32]
    assert rows(api)[-1]["verb"] == "audit.pruned"
    assert "rows of the audit log" not in {one.kind for one in api.service.parts.pruning.prune()}, (
        "only when it is worth it"
    )
    where = store_of(api)
    api.world.store.close()
    assert examine(where).findings == []
    raw(where, "delete from audit where number=31")
    assert "rows before row 32 are missing" in examine(where).findings[0].text


def test_the_chain_goes_on_after_a_restart(api: Api) -> None:
    api.ask("POST", "/v1/tokens", "ann", json={})
    where = store_of(api)
    api.world.store.close()
    store = Store(where)
    again = AuditLog(store, api.world.clock, StoreWatch(api.world.clock))
    again.run({"verb": "job.pause", "user": "ann", "target": "a-1"}, lambda: None)
    check = ChainCheck()
    for row in again.page(None, 10, oldest_first=True)["rows"]:
        check.see(AuditRow(**row))
    assert (check.rows, check.end(again.page(None, 1)["head"])) == (2, "")
    store.close()


def test_a_change_that_does_not_fit_is_told_with_its_reason(api: Api) -> None:
    job_id = api.job("ann")
    answer = api.ask("POST", f"/v1/jobs/{job_id}/fork", "ann", json={}, headers=KEY)
    assert answer.status_code == 409
    assert rows(api)[-1]["outcome"].startswith("refused: ")


@pytest.mark.parametrize(
    ("status", "method", "path", "more", "verb"),
    [
        (400, "POST", "/v1/jobs", {"content": b"{secret-body"}, "job.submit"),
        (400, "POST", "/v1/jobs", {"content": b"[" * 65}, "job.submit"),
        (413, "POST", "/v1/jobs", {"content": b"secret-body" * (1 << 17)}, "job.submit"),
        (422, "POST", "/v1/jobs", {"json": {**JOB, "secret-body": 1}}, "job.submit"),
        (422, "POST", "/v1/jobs", {"json": {**JOB, "spec": {**SPEC, "grace_s": "secret-body"}}}, "job.submit"),
        (422, "POST", "/v1/tokens", {"json": {"days": "secret-body"}}, "token.issue"),
        (422, "PUT", f"/v1/packages/{'0' * 64}", {"content": b"secret-body"}, "package.put"),
        (422, "PUT", "/v1/packages/evil", {"content": b"secret-body"}, "package.put"),
        (413, "PUT", "/v1/secrets/A", {"content": b"secret-body" * (1 << 14)}, "secret.set"),
        (422, "PUT", "/v1/secrets/A", {"content": b"secret-body\xff"}, "secret.set"),
        (422, "PUT", "/v1/secrets/A", {"content": b"secret-body\0"}, "secret.set"),
    ],
)
def test_a_body_that_is_refused_is_told_without_what_it_holds(
    api: Api, status: int, method: str, path: str, more: dict[str, Any], verb: str
) -> None:
    assert api.ask(method, path, "ann", headers=KEY, **more).status_code == status
    (row,) = rows(api)
    assert (row["verb"], row["user"]) == (verb, "ann")
    assert row["outcome"].startswith((f"{status}: ", "refused: "))
    assert "secret-body" not in str(row)


def test_parameters_that_are_refused_are_told_once_and_reads_are_not(api: Api) -> None:
    job_id = api.job("ann")
    assert api.ask("POST", f"/v1/jobs/{job_id}/pause", "ann").status_code == 422, "without a key"
    assert [(row["verb"], row["target"], row["outcome"]) for row in rows(api)] == [
        ("job.pause", job_id, "422: not accepted")
    ]
    assert api.ask("GET", "/v1/jobs", "ann", params={"limit": 0}).status_code == 422
    assert api.ask("POST", f"/v1/jobs/{job_id}/outputs/part", "ann", json={"x": 1}).status_code == 422
    assert len(rows(api)) == 1


def test_a_verb_that_is_none_does_not_fill_a_row(api: Api) -> None:
    assert api.ask("POST", f"/v1/machines/m0/{'x' * 5000}", "bob").status_code == 403
    (row,) = rows(api)
    assert row["verb"].startswith("node.xxx")
    assert len(row["verb"]) <= 50


def test_refused_bodies_do_not_fill_the_disk(api: Api) -> None:
    for _ in range(BURST + 5):
        api.ask("POST", "/v1/tokens", "ann", content=b"{")
    assert len(rows(api)) == BURST
