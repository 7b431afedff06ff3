"""What the API answers becomes errors of one sentence, and a service that restarts is waited for."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest
from coadapt.cli.exit_codes import Exit, code_of
from coadapt.client.http_api import (
    AccessError,
    HttpApi,
    NoClusterError,
    RequestError,
    UnknownJobError,
)
from coadapt.core.errors import JobStateError, OutputError, PackageError, PowerError, StateError


def api_of(answer: Callable[[httpx.Request], httpx.Response], patience_s: float = 0.0) -> HttpApi:
    api = HttpApi("http://api", "token", patience_s)
    api._http = httpx.Client(
        base_url="http://api", transport=httpx.MockTransport(answer), headers=api._http.headers
    )
    return api


PROBLEMS: list[tuple[int, str, type[Exception], Exit]] = [
    (401, "/v1/me", AccessError, Exit.NO_CLUSTER),
    (403, "/v1/jobs/a-1", AccessError, Exit.NO_CLUSTER),
    (404, "/v1/jobs/a-1", UnknownJobError, Exit.NOT_FOUND),
    (409, "/v1/jobs/a-1/pause", JobStateError, Exit.USAGE),
    (409, "/v1/machines/m/wake", PowerError, Exit.USAGE),
    (422, "/v1/jobs", RequestError, Exit.USAGE),
    (422, "/v1/packages/x", PackageError, Exit.USAGE),
    (502, "/v1/jobs/a-1/outputs", OutputError, Exit.USAGE),
    (503, "/v1/jobs", StateError, Exit.JOB_FAILED),
    (500, "/v1/jobs", NoClusterError, Exit.NO_CLUSTER),
]


@pytest.mark.parametrize(("status", "path", "kind", "code"), PROBLEMS)
def test_a_problem_is_an_error_of_one_sentence(status: int, path: str, kind: type[Exception], code: Exit) -> None:
    api = api_of(lambda request: httpx.Response(status, json={"detail": "it is so"}))
    with pytest.raises(kind) as told:
        api.get(path)
    assert str(told.value).endswith("it is so")
    assert code_of(told.value) is code


def test_what_is_no_answer_of_ours_is_told_too() -> None:
    api = api_of(lambda request: httpx.Response(418, text="teapot"))
    with pytest.raises(RequestError, match=r"^http://api/v1/me answered 418$"):
        api.get("/v1/me")


def test_a_scheduler_that_restarts_is_waited_for_and_the_key_stays_the_same() -> None:
    keys = list[str | None]()

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers.get("idempotency-key"))
        if len(keys) == 1:
            raise httpx.ConnectError("refused", request=request)
        if len(keys) == 2:
            return httpx.Response(503, json={"detail": "the scheduler does not answer now: it restarts"})
        return httpx.Response(200, json={"changed": True})

    assert api_of(answer, 30.0).post("/v1/jobs/a-1/pause", key="k") == {"changed": True}
    assert keys == ["k"] * 3


def test_nobody_who_answers_is_told_with_the_url() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(NoClusterError, match=r"^no scheduler answers at http://api: refused$"):
        api_of(answer).get("/v1/me")


def test_the_token_and_parameters_are_sent_and_none_is_left_out() -> None:
    seen = list[httpx.Request]()

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, content=json.dumps({"items": [], "next": None}))

    api_of(answer).get("/v1/jobs", limit=3, cursor=None, phase=["queued", "running"])
    assert seen[0].headers["authorization"] == "Bearer token"
    assert str(seen[0].url) == "http://api/v1/jobs?limit=3&phase=queued&phase=running"
