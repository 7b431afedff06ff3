"""A receiver of webhooks: a real HTTP server on this machine, which answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What a receiver answers. `held`: it answers only once this is set."""

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    held: threading.Event | None = None


@dataclass(frozen=True)
class Got:
    """One request that came. `headers`: with names in small letters."""

    path: str
    headers: dict[str, str]
    body: str

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class Receiver:
    """Takes what comes on a port of 127.0.0.1, and keeps it. `answer`: returns what is answered to the n-th."""

    def __init__(self, answer: Callable[[Got, int], Answer] = lambda got, number: Answer()) -> None:
        self.got: list[Got] = []
        self._answer, self._lock = answer, threading.Lock()
        self._came = threading.Condition(self._lock)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = outer._take(Got(self.path, headers, body))
                if answer.held is not None:
                    answer.held.wait(60)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Say nothing of connections that were cut."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def until(self, count: int, timeout_s: float = 20.0) -> list[Got]:
        """Return what has come once it is so many."""
        with self._lock:
            assert self._came.wait_for(lambda: len(self.got) >= count, timeout_s), (
                f"{len(self.got)} of {count} came"
            )
            return list(self.got)

    def _take(self, got: Got) -> Answer:
        with self._lock:
            self.got.append(got)
            number = len(self.got)
            self._came.notify_all()
        return self._answer(got, number)

    def __enter__(self) -> Receiver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
