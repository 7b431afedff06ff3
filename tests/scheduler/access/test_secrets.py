"""What a secret holds reaches processes of its user's jobs, and stands nowhere else."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coadapt.api.access import RULES
from coadapt.core.errors import SecretError
from coadapt.core.job import JobSpec
from coadapt.core.job_limits import refusals
from coadapt.deploy.store_care import diagnose
from coadapt.executor.sandbox.secrets import GivenSecrets
from coadapt.scheduler.access.secret_keys import VARIABLE, SecretKeys
from coadapt.scheduler.executors.actors import Executors
from coadapt.scheduler.store import secrets as table
from pydantic import ValidationError

from tests.api.test_access import filled
from tests.support.api import JOB, SPEC, Api
from tests.support.stores import raw

VALUE = "s3cr3t-value-of-ann"
KEY = {"Idempotency-Key": "k"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def kept(api: Api, value: str = VALUE, user: str = "ann", name: str = "HF_TOKEN") -> dict[str, Any]:
    answer = api.ask("PUT", f"/v1/secrets/{name}", user, content=value.encode())
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def submitted(api: Api, secrets: Any, user: str = "ann", key: str = "k") -> Any:
    body = {**JOB, "spec": {**SPEC, "secrets": secrets}}
    return api.ask("POST", "/v1/jobs", user, json=body, headers={"Idempotency-Key": key})


def given(api: Api, job_id: str) -> dict[str, Any]:
    found = api.service.parts.secrets.given(api.world.store.get(job_id))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("secrets", "variables"),
    [(["HF_TOKEN"], {"HF_TOKEN": VALUE}), ({"WANDB_API_KEY": "HF_TOKEN"}, {"WANDB_API_KEY": VALUE})],
)
def test_a_job_file_names_secrets_which_its_processes_get(
    api: Api, secrets: Any, variables: dict[str, str]
) -> None:
    kept(api)
    job_id = submitted(api, secrets).json()["id"]
    assert given(api, job_id) == {"values": variables, "problem": ""}


def test_the_value_stands_in_no_answer_no_file_and_no_backup(api: Api, tmp_path: Path) -> None:
    kept(api)
    body = {**JOB, "spec": {**SPEC, "secrets": ["HF_TOKEN"], "env": {"API_TOKEN": "typed-" + VALUE[7:]}}}
    job_id = api.ask("POST", "/v1/jobs", "ann", json=body, headers=KEY).json()["id"]
    api.world.play("go")
    api.ask("POST", "/v1/backups")
    api.ask("POST", "/v1/secrets/rekey")
    kept(api, VALUE + "2")
    for method, path in RULES:
        if method == "GET" and path != "/v1/events":
            answer = api.ask(method, filled(path, job_id))
            assert VALUE not in answer.text, path
            assert "typed-" not in answer.text, path  # by its name it is a secret, too
    assert VALUE not in api.ask("GET", "/v1/events", params={"follow": "false"}).text
    assert api.ask("GET", "/v1/secrets", "ann").json()[0].keys() == {"name", "created_s", "changed_s", "problem"}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("backups" in str(path) for path in files)
    for path in files:
        assert VALUE.encode() not in path.read_bytes(), path
    assert VALUE not in repr(api.world.store.get(job_id))
    keys = api.world.settings.secret_keys
    assert oct(keys.stat().st_mode)[-3:] == "600"
    key = keys.read_bytes().strip()
    assert all(key not in path.read_bytes() for path in files if path != keys)


def test_secrets_are_of_one_user(api: Api) -> None:
    kept(api)
    assert api.ask("GET", "/v1/secrets", "bob").json() == []
    assert submitted(api, ["HF_TOKEN"], "bob").json()["detail"] == (
        "secrets: bob has no secret HF_TOKEN; `coadapt secret set HF_TOKEN` makes one"
    )
    kept(api, "of bob", "bob")
    job_id = submitted(api, ["HF_TOKEN"], "bob").json()["id"]
    assert given(api, job_id)["values"] == {"HF_TOKEN": "of bob"}
    assert api.ask("DELETE", "/v1/secrets/HF_TOKEN", "bob").json() == {"jobs": [job_id]}
    assert given(api, job_id)["problem"].startswith("secrets: bob has no secret HF_TOKEN")
    assert api.ask("DELETE", "/v1/secrets/HF_TOKEN", "bob").status_code == 404


def test_a_changed_secret_is_given_to_the_jobs_that_name_it(api: Api) -> None:
    kept(api)
    job_id = submitted(api, ["HF_TOKEN"]).json()["id"]
    assert kept(api, "another") == {"new": False, "jobs": [job_id]}
    assert api.world.executors.sent == ["give a"]
    assert given(api, job_id)["values"] == {"HF_TOKEN": "another"}


def test_a_row_cannot_stand_in_for_another_users(api: Api) -> None:
    kept(api)
    kept(api, "of bob", "bob")
    job_id = submitted(api, ["HF_TOKEN"], "bob").json()["id"]
    sealed = raw(api.world.settings.store_path, "select sealed from secrets where \"user\"='ann'")[0][0]
    raw(api.world.settings.store_path, f"update secrets set sealed='{sealed}' where \"user\"='bob'")
    assert "HF_TOKEN cannot be opened" in given(api, job_id)["problem"]


def test_a_new_key_opens_all_and_the_old_one_is_forgotten(api: Api) -> None:
    kept(api)
    kept(api, "of bob", "bob")
    job_id = submitted(api, ["HF_TOKEN"]).json()["id"]
    before = api.world.settings.secret_keys.read_text()
    assert api.ask("POST", "/v1/secrets/rekey").json() == {"sealed": 2, "lost": 0}
    after = api.world.settings.secret_keys.read_text()
    assert len(after.split()) == 1
    assert before != after
    assert given(api, job_id)["values"] == {"HF_TOKEN": VALUE}


@pytest.mark.parametrize("rotations", [1, 2])
@pytest.mark.parametrize("when", ["rows", "keys"])
def test_a_job_that_starts_while_all_are_sealed_anew_gets_its_secrets(
    api: Api, monkeypatch: pytest.MonkeyPatch, when: str, rotations: int
) -> None:
    kept(api)
    job_id = submitted(api, ["HF_TOKEN"]).json()["id"]
    secrets, left = api.service.parts.secrets, [rotations]

    def sealed_anew_after(read: Any) -> Any:
        """Return the same, behind which all are sealed anew once."""

        def reads(*args: Any) -> Any:
            found, left[:], many = read(*args), [], sum(left)
            for _ in range(many):
                secrets.rekey()
            return found

        return reads

    before = api.world.settings.secret_keys.read_text()
    if when == "rows":
        monkeypatch.setattr(table, "read", sealed_anew_after(table.read))
    else:
        monkeypatch.setattr(SecretKeys, "all", sealed_anew_after(SecretKeys.all))
    assert given(api, job_id) == {"values": {"HF_TOKEN": VALUE}, "problem": ""}
    assert api.world.settings.secret_keys.read_text() != before, "they were sealed anew meanwhile"
    left[:] = [rotations]
    assert [row["problem"] for row in secrets.rows("ann")] == [""]
    left[:] = [rotations]
    assert submitted(api, ["HF_TOKEN"], key="another").status_code == 201


def test_a_lost_key_is_told_for_each_secret(api: Api) -> None:
    kept(api)
    job_id = submitted(api, ["HF_TOKEN"]).json()["id"]
    assert diagnose(None, api.world.settings).findings == []
    api.world.settings.secret_keys.unlink()
    (row,) = api.ask("GET", "/v1/secrets", "ann").json()
    assert row["problem"].startswith("HF_TOKEN cannot be opened, as its key ")
    assert submitted(api, ["HF_TOKEN"], key="other").json()["detail"] == f"secrets: {row['problem']}"
    assert given(api, job_id)["problem"] == f"secrets: {row['problem']}"
    found = diagnose(None, api.world.settings).findings
    assert [(one.kind, one.text) for one in found] == [("secret", f"ann: {row['problem']}")]
    kept(api, "anew")
    assert given(api, job_id)["values"] == {"HF_TOKEN": "anew"}


def test_the_key_may_come_from_the_environment(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, base64.b64encode(os.urandom(32)).decode())
    kept(api)
    job_id = submitted(api, ["HF_TOKEN"]).json()["id"]
    assert given(api, job_id)["values"] == {"HF_TOKEN": VALUE}
    assert not api.world.settings.secret_keys.exists()
    monkeypatch.setenv(VARIABLE, f"{base64.b64encode(os.urandom(32)).decode()},{os.environ[VARIABLE]}")
    assert api.ask("POST", "/v1/secrets/rekey").json() == {"sealed": 1, "lost": 0}
    monkeypatch.setenv(VARIABLE, "nonsense")
    told = f"{VARIABLE}: holds what is no key of secrets; a key is 32 bytes in base64"
    assert api.ask("PUT", "/v1/secrets/A", "ann", content=b"x").json()["detail"] == told


@pytest.mark.parametrize(
    ("name", "value", "status", "told"),
    [
        ("1A", b"x", 422, "secret: "),
        ("A-B", b"x", 422, "secret: "),
        ("A" * 101, b"x", 422, "secret: "),
        ("A", b"", 422, "A: the value is empty"),
        ("A", b"x\0y", 422, "A: the value holds a NUL character"),
        ("A", b"\xff\xfe", 422, "A: the value is not text in UTF-8"),
        ("A", b"x" * 70_000, 413, "the body is larger than 65536 bytes"),
    ],
)
def test_a_secret_that_is_none_is_one_sentence(api: Api, name: str, value: bytes, status: int, told: str) -> None:
    answer = api.ask("PUT", f"/v1/secrets/{name}", "ann", content=value)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"].startswith(told)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"secrets": ["A B"]}, "secrets"),
        ({"secrets": {"RANK": "A"}}, "secrets.RANK: set by coadapt for each worker and cannot be given"),
        ({"secrets": {"COADAPT_X": "A"}}, "secrets.COADAPT_X: set by coadapt for each worker"),
        ({"secrets": ["A"], "env": {"A": "x"}}, "secrets.A: env sets this variable, too; give it once"),
        ({"secrets": "A"}, "secrets"),
    ],
)
def test_a_job_file_that_names_them_wrongly_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told.partition(" ")[0]) as raised:
        JobSpec.model_validate({**SPEC, **fields})
    assert told in str(raised.value)


@pytest.mark.parametrize("variable", ["CUDA_VISIBLE_DEVICES", "GROUP_RANK", "RAY_ADDRESS", "LD_PRELOAD"])
def test_a_secret_is_no_way_around_what_env_may_not_set(variable: str) -> None:
    spec = JobSpec.model_validate({**SPEC, "secrets": {variable: "A"}})
    assert [text.partition(":")[0] for text in refusals(spec)] == [f"secrets.{variable}"]


def test_secrets_go_with_calls_and_an_executor_refuses_to_start_without_them() -> None:
    executors = Executors.__new__(Executors)
    executors._secrets = lambda job: None if job is None else {"values": {"A": "x"}, "problem": ""}
    assert executors._given(None, ()) == (), "an executor of an earlier version takes no more arguments"
    held = GivenSecrets()
    held.take({"values": {"A": VALUE}, "problem": ""})
    held.take(None)
    assert held.values() == {"A": VALUE}
    assert VALUE not in repr(held)
    held.take({"values": {}, "problem": "secrets: ann has no secret A"})
    with pytest.raises(SecretError, match="ann has no secret A"):
        held.values()
