"""Requests to the HTTP API. Problems come back as errors of one sentence; what is repeated does no harm twice."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import urllib3

from ..core.errors import (
    JobStateError,
    OutputError,
    PackageError,
    PowerError,
    SettingError,
    StateError,
    StoreError,
)
from ..core.json_numbers import dumps
from .event_stream import ServerEvent, parsed

RETRY_S = 60.0
FIRST_S = 5.0  # for so long somebody is waited for who has never answered
PAUSE_S = 0.1  # between two tries
ANSWER_S = 60.0
_NOT_SENT = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.SSLError)  # nobody has heard of it
_MAYBE = "it may have been done all the same, so look before you try again"


class NoClusterError(RuntimeError):
    """No cluster, or no scheduler service on it; one sentence for a person."""


class UnknownJobError(KeyError):
    """No job has this id."""

    def __str__(self) -> str:
        return str(self.args[0])


class AccessError(RuntimeError):
    """The token is not accepted, or its user may not do that; one sentence for a person."""


class RequestError(ValueError):
    """The API does not accept a request; one sentence for a person."""


class HttpApi:
    """One API, by its URL and a token.

    Args:
        patience_s: for so long requests are repeated while nobody answers, as when the service starts again.
        fingerprint: the SHA-256 of its certificate; None: one of a CA that this machine knows.
    """

    def __init__(self, url: str, token: str, patience_s: float = RETRY_S, fingerprint: str | None = None) -> None:
        self.url, self.token, self._patience_s, self._answered = url, token, patience_s, False
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        known: dict[str, Any] = (
            {} if fingerprint is None else {"assert_fingerprint": fingerprint, "cert_reqs": "CERT_NONE"}
        )
        self._http = urllib3.PoolManager(timeout=urllib3.Timeout(ANSWER_S), retries=False, **known)

    def get(self, path: str, **parameters: Any) -> Any:
        """Return what is at a path. Parameters that are None are left out."""
        return json.loads(self._ask("GET", _with(path, parameters)))

    def post(self, path: str, body: Mapping[str, Any] | None = None, *, key: str | None = None) -> Any:
        """Have something done. With a key it is done once, however often it is asked."""
        return json.loads(self._post(path, body, key))

    def post_once(self, path: str, body: Mapping[str, Any]) -> Any:
        """Have something done that no key guards: it is not asked again where it may have been done.

        Raises: NoClusterError that says so.
        """
        sent = {"Content-Type": "application/json"}
        return json.loads(self._ask("POST", path, sent, dumps(body).encode(), repeated=False))

    def post_for_bytes(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Return bytes that are asked for by a body."""
        return self._post(path, body, None)

    def _post(self, path: str, body: Mapping[str, Any] | None, key: str | None) -> bytes:
        headers = {} if key is None else {"Idempotency-Key": key}
        if body is None:
            return self._ask("POST", path, headers)
        return self._ask("POST", path, {**headers, "Content-Type": "application/json"}, dumps(body).encode())

    def put(self, path: str, content: bytes, media_type: str = "application/octet-stream") -> Any:
        """Put bytes at a path."""
        return json.loads(self._ask("PUT", path, {"Content-Type": media_type}, content))

    def put_json(self, path: str, body: Mapping[str, Any]) -> Any:
        """Put a document at a path."""
        return self.put(path, dumps(body).encode(), "application/json")

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """Change parts of what is at a path."""
        return json.loads(self._ask("PATCH", path, {"Content-Type": "application/json"}, dumps(body).encode()))

    def content(self, path: str, **parameters: Any) -> bytes:
        """Return the bytes at a path."""
        return self._ask("GET", _with(path, parameters))

    def delete(self, path: str) -> Any:
        """Remove what is at a path."""
        return json.loads(self._ask("DELETE", path))

    def text(self, path: str) -> str:
        """Return the text at a path."""
        return self._ask("GET", path).decode()

    def stream(self, path: str, **parameters: Any) -> Iterator[ServerEvent]:
        """Yield server-sent events as they come, until the server ends the stream.

        One that breaks off is taken up again behind its last event. The caller knows by the last event whether
        the stream is over. Raises: as other requests do; NoClusterError where nobody answers any more.
        """
        last_id, deadline_s = "", time.monotonic() + (self._patience_s if self._answered else FIRST_S)
        while True:
            headers = {**self._headers, "Accept": "text/event-stream"}
            headers |= {"Last-Event-ID": last_id} if last_id else {}
            try:
                answer = self._http.request(
                    "GET", f"{self.url}{_with(path, parameters)}", headers=headers, preload_content=False
                )
                if answer.status >= 300:
                    problem = _error_of(answer.status, _detail(answer.status, answer.read(), path), path)
                    if not isinstance(problem, _Away) or time.monotonic() > deadline_s:
                        raise problem
                else:
                    self._answered = True
                    for event in parsed(answer.stream(64 * 1024)):
                        last_id, deadline_s = event.id or last_id, time.monotonic() + self._patience_s
                        yield event
                    return
            except urllib3.exceptions.HTTPError as failed:
                if time.monotonic() > deadline_s:
                    raise NoClusterError(f"no scheduler answers at {self.url}: {_why(failed)}") from None
            time.sleep(PAUSE_S)  # nobody tells when it is back; up to a limit

    def close(self) -> None:
        """Close the connections."""
        self._http.clear()

    def _ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        repeated: bool = True,
    ) -> bytes:
        began_s = time.monotonic()
        deadline_s = began_s + self._patience_s
        while True:
            try:
                answer = self._http.request(
                    method, f"{self.url}{path}", body=body, headers={**self._headers, **(headers or {})}
                )
            except urllib3.exceptions.LocationValueError as wrong:
                raise NoClusterError(f"{self.url}: this is no URL of a scheduler: {wrong}") from None
            except urllib3.exceptions.ReadTimeoutError:
                raise NoClusterError(f"the scheduler at {self.url} does not answer in {ANSWER_S:.0f} s") from None
            except urllib3.exceptions.HTTPError as failed:
                if not (repeated or isinstance(failed, _NOT_SENT)):
                    raise NoClusterError(f"the connection to {self.url} broke; {_MAYBE}") from None
                if time.monotonic() > (deadline_s if self._answered else min(began_s + FIRST_S, deadline_s)):
                    raise NoClusterError(f"no scheduler answers at {self.url}: {_why(failed)}") from None
                time.sleep(PAUSE_S)  # nobody tells when it is back; up to a limit
                continue
            self._answered = True
            if answer.status < 300:
                return answer.data
            problem = _error_of(answer.status, _detail(answer.status, answer.data, path), path)
            if isinstance(problem, _Away) and not repeated:
                raise NoClusterError(f"{problem}; {_MAYBE}")
            if not isinstance(problem, _Away) or time.monotonic() > deadline_s:
                raise problem
            time.sleep(PAUSE_S)  # as above


def _with(path: str, parameters: Mapping[str, Any]) -> str:
    told = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(told, doseq=True)}" if told else path


def _why(error: urllib3.exceptions.HTTPError) -> str:
    """Return the cause of an error without the connection that it happened on."""
    why = str(error).rpartition(": ")[2]
    unknown = isinstance(getattr(error, "reason", error), urllib3.exceptions.SSLError) and "certificate" in why
    return f"{why}; SSL_CERT_FILE names a file with the certificates that you trust" if unknown else why


class _Away(StateError):
    """The scheduler's actor does not answer the API now."""


def _error_of(status: int, detail: str, path: str) -> Exception:
    """Return the error that a problem of the API is."""
    match status:
        case 401 | 403:
            return AccessError(detail)
        case 404:
            return UnknownJobError(detail)
        case 409 if path.startswith("/v1/backups"):
            return StoreError(detail)
        case 409:
            return PowerError(detail) if path.startswith("/v1/machines/") else JobStateError(detail)
        case 422 if path.startswith("/v1/packages/"):
            return PackageError(detail)
        case 422 if path == "/v1/settings":
            return SettingError(detail)
        case 502:
            return OutputError(detail)
        case 503:
            return _Away(detail) if detail.startswith("the scheduler does not answer now") else StateError(detail)
    if status >= 500:
        return NoClusterError(f"the scheduler has failed: {detail}")
    return RequestError(detail)


def _detail(status: int, body: bytes, path: str) -> str:
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"{path} was answered with status {status}"
