"""Studies are begun once, are told to their users only, and go on after a start of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from coadapt.tuning.live.store import StudyStore

from tests.support.api import JOB, SPEC, Api

STUDY: dict[str, Any] = {
    "name": "digits",
    "job": "job.yaml",
    "space": {"lr": {"log": [0.001, 1.0]}},
    "metric": "accuracy",
    "mode": "max",
    "trials": 12,
    "epochs": 9,
}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def begin(api: Api, user: str = "ann", key: str = "k", **more: Any) -> httpx.Response:
    body = {"study": {**STUDY, **more.pop("study", {})}, "job": JOB, **more}
    return api.ask("POST", "/v1/studies", user, json=body, headers={"Idempotency-Key": key})


def test_a_study_begins_once_for_the_same_key(api: Api) -> None:
    first, again, other = begin(api), begin(api), begin(api, key="l")
    assert (first.status_code, first.json()) == (201, {"id": "digits:1"})
    assert again.json() == {"id": "digits:1"}
    assert other.json() == {"id": "digits:2"}
    assert api.begun == ["digits:1", "digits:2"]


def test_a_study_acts_as_its_user_by_a_token_that_only_its_file_has(api: Api) -> None:
    begin(api)
    (row,) = [row for row in api.ask("GET", "/v1/tokens", "ann").json() if row["label"] == "study digits"]
    assert row["user"] == "ann"
    assert "token" not in api.ask("GET", "/v1/studies/digits:1", "ann").text


def test_a_study_that_is_only_checked_is_not_kept(api: Api) -> None:
    assert begin(api, dry_run=True).json() == {"id": None}
    assert api.ask("GET", "/v1/studies", "ann").json() == []


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"study": {"trials": 0}}, "trials: 0 is not a number of at least 1"),
        ({"study": {"space": {}}}, "space"),
        ({"study": {"space": {"weight_decay": {"log": [1e-5, 1e-2]}}}}, "set shrink: 1"),
        ({"job": {**JOB, "spec": {**SPEC, "elastic": False}}}, "trials: it is for a script that calls coadapt"),
    ],
)
def test_what_is_wrong_with_a_study_is_told_and_nothing_is_kept(api: Api, more: dict[str, Any], told: str) -> None:
    answer = begin(api, **more)
    assert (answer.status_code, told in answer.json()["detail"]) == (422, True), answer.json()
    assert api.begun == []


def test_a_study_is_told_to_its_user_and_to_operators(api: Api) -> None:
    begin(api)
    for user, seen in (("ann", ["digits:1"]), ("bob", []), ("ops", ["digits:1"])):
        assert [row["id"] for row in api.ask("GET", "/v1/studies", user).json()] == seen
        assert api.ask("GET", "/v1/studies/digits:1", user).status_code == (200 if seen else 404)
        cancelled = api.ask("POST", "/v1/studies/digits:1/cancel", user)
        assert cancelled.status_code == (200 if seen else 404)
    view = api.ask("GET", "/v1/studies/digits:1", "ann").json()
    assert (view["status"], view["owner"], view["trials_asked"]) == ("cancelled", "ann", 12)
    assert api.ask("GET", "/v1/studies/other:7", "ann").status_code == 404


def test_studies_that_are_not_over_go_on_after_a_start(api: Api) -> None:
    begin(api)
    begin(api, key="l")
    api.ask("POST", "/v1/studies/digits:2/cancel", "ann")
    api.begun.clear()
    api.studies.go_on()
    assert api.begun == ["digits:1"]


def test_a_deadline_below_an_epoch_that_an_earlier_study_measured_is_refused(api: Api, tmp_path: Path) -> None:
    job = {**JOB, "script_key": "same"}
    begin(api, job=job)
    store = StudyStore(tmp_path / "studies" / "digits:1")
    for epoch_s in (120.0, 90.0, 100.0):
        store.target_took(epoch_s)
    store.close()
    api.begun.clear()
    short = {"deadline": "1m"}
    for dry_run in (True, False):
        answer = begin(api, key="l", job=job, study=short, dry_run=dry_run)
        told = "deadline: 60 s is less than an epoch of the target, which takes 90 s"
        assert (answer.status_code, answer.json()["detail"]) == (422, told)
    assert api.begun == []
    other_resources = {**job, "spec": {**SPEC, "resources": {"max_gpus": 8}}}
    for user, of, study in (
        ("ann", job, {"deadline": "2m"}),
        ("ann", {**job, "script_key": "other"}, short),
        ("ann", other_resources, short),
        ("bob", job, short),
    ):
        assert begin(api, user, key=f"{user}{of}{study}"[:90], job=of, study=study).status_code == 201
