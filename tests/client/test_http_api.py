"""What the API answers becomes errors of one sentence, and a service that restarts is waited for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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


@dataclass
class Request:
    """What a server was asked."""

    target: str
    key: str | None
    authorization: str | None


Answer = Callable[[Request], tuple[int, bytes]]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Serve answers on loopback, and yield the URL. An answer of status 0 breaks the connection."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = self.headers
            status, body = answer(Request(self.path, headers["Idempotency-Key"], headers["Authorization"]))
            if status:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            self.close_connection = True

        do_POST = do_GET

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def problem(status: int, detail: str) -> tuple[int, bytes]:
    return status, json.dumps({"detail": detail}).encode()


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
    with serving(lambda request: problem(status, "it is so")) as url, pytest.raises(kind) as told:
        HttpApi(url, "", 0.0).get(path)
    assert str(told.value).endswith("it is so")
    assert code_of(told.value) is code


def test_what_is_no_answer_of_ours_is_told_too() -> None:
    said = r"^/v1/me was answered with status 418$"
    with serving(lambda request: (418, b"teapot")) as url, pytest.raises(RequestError, match=said):
        HttpApi(url, "", 0.0).get("/v1/me")


def test_a_scheduler_that_restarts_is_waited_for_and_the_key_stays_the_same() -> None:
    keys = list[str | None]()

    def answer(request: Request) -> tuple[int, bytes]:
        keys.append(request.key)
        if len(keys) == 1:
            return 0, b""
        if len(keys) == 2:
            return problem(503, "the scheduler does not answer now: it restarts")
        return 200, b'{"changed": true}'

    with serving(answer) as url:
        assert HttpApi(url, "", 30.0).post("/v1/jobs/a-1/pause", key="k") == {"changed": True}
    assert keys == ["k"] * 3


@pytest.mark.parametrize(
    "lost", [(0, b""), problem(503, "the scheduler does not answer now: it restarts")], ids=["broken", "away"]
)
def test_what_no_key_guards_is_not_done_twice(lost: tuple[int, bytes]) -> None:
    asked = list[Request]()

    def answer(request: Request) -> tuple[int, bytes]:
        asked.append(request)
        return lost

    with serving(answer) as url, pytest.raises(NoClusterError, match="it may have been done all the same"):
        HttpApi(url, "", 30.0).post_once("/v1/tokens", {"label": "laptop"})
    assert len(asked) == 1


def test_what_nobody_has_heard_is_asked_again_also_without_a_key() -> None:
    with serving(lambda request: (200, b"{}")) as url:
        pass
    with pytest.raises(NoClusterError, match=r"Connection refused$"):
        HttpApi(url, "", 0.0).post_once("/v1/tokens", {})


def test_nobody_who_answers_is_told_with_the_url() -> None:
    with serving(lambda request: (200, b"{}")) as url:
        pass
    with pytest.raises(NoClusterError, match=rf"^no scheduler answers at {url}: .*Connection refused"):
        HttpApi(url, "", 0.0).get("/v1/me")


def test_the_token_and_parameters_are_sent_and_none_is_left_out() -> None:
    seen = list[Request]()

    def answer(request: Request) -> tuple[int, bytes]:
        seen.append(request)
        return 200, b'{"items": [], "next": null}'

    with serving(answer) as url:
        HttpApi(url, "token").get("/v1/jobs", limit=3, cursor=None, phase=["queued", "running"])
    assert seen == [Request("/v1/jobs?limit=3&phase=queued&phase=running", None, "Bearer token")]
