"""Where a program says how far it is: `coadapt.report`, the trainer's own status, a file, or its output.

The first of them in this order that has spoken is believed, and the later ones are not.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from enum import IntEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ..protocol.command_events import CommandEvent, Refused, Status
from ..sandbox.ownership import acting_as
from .status_lines import LogPattern, StatusError, status_in_line, status_of

LOOPBACK = "127.0.0.1"
LOOK_S = 0.25  # between looks at files
MOST_BYTES = 1 << 20  # of a posted status
MOST_READ = 4 << 20  # bytes of a file in one look
MOST_REFUSED = 5  # sentences on statuses that were not taken; a program may write thousands


class Source(IntEnum):
    """Where a status comes from; the lower number is believed."""

    REPORT = 0
    TRAINER = 1
    FILE = 2
    LOG = 3


class Tail:
    """Read the whole lines that are added to a file; one that was begun anew is read from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path, self._at, self._rest = path, 0, b""

    def skip(self) -> None:
        """Leave out what is there already."""
        if self._path.exists():
            self._at = self._path.stat().st_size

    def lines(self, *, rest: bool = False) -> list[str]:
        """Return the lines that are new; with `rest` also the last one, where nothing ends it."""
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._at:
                    self._at, self._rest = 0, b""
                file.seek(self._at)
                data = file.read(MOST_READ)
        except OSError:  # not there yet, or not for us
            return []
        self._at += len(data)
        *lines, self._rest = (self._rest + data + b"\n" * rest).split(b"\n")
        if len(self._rest) > MOST_BYTES:  # a line that never ends is no status
            self._rest = b""
        return [line.decode("utf-8", "replace") for line in lines if line.strip()]


class StatusSources:
    """Watch all sources of one process, and emit what the best of them says.

    pattern: of the job's file; it is also for those lines of the file of progress that are no JSON.
    uid: of the program, which may have made a link of a file; None: this process's own.
    """

    def __init__(
        self,
        job_id: str,
        emit: Callable[[CommandEvent], None],
        clock: Callable[[], float],
        pattern: str = "",
        uid: int | None = None,
    ) -> None:
        self._job_id, self._emit, self._clock = job_id, emit, clock
        self._pattern, self._uid = pattern, uid
        self._lock = threading.Lock()
        self._best = Source.LOG
        self._refusing = threading.Lock()
        self._refused, self._last = 0, ""
        self._tails: list[tuple[Source, Tail]] = []
        self._server: ThreadingHTTPServer | None = None
        self._done = threading.Event()

    def open(self, folder: Path, own_file: Path | None) -> dict[str, str]:
        """Begin to watch; return the variables that tell a program where to say how far it is.

        What stands in the job's own file already is of an earlier start.
        """
        self._tails = [(Source.REPORT, Tail(folder / "status.jsonl"))]
        if own_file is not None:
            tail = Tail(own_file)
            with acting_as(self._uid):
                tail.skip()
            self._tails.append((Source.FILE, tail))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, name="trainer-status", daemon=True).start()
        threading.Thread(target=self._watch, name="status-files", daemon=True).start()
        token = folder / "token"
        token.write_text(self._job_id, encoding="utf-8")
        address = f"http://127.0.0.1:{self._server.server_address[1]}"
        return trainer_environment(address, str(token))

    def close(self) -> None:
        self._done.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def from_log(self, status: Status) -> None:
        """Take what a line of the output says, unless a better source spoke before that line was written."""
        self._read()  # a file may still be given the rest of its last line
        self._take(Source.LOG, status)

    def read_rest(self) -> None:
        """Read what files have been given until the program's end."""
        self._read(rest=True)

    def _read(self, *, rest: bool = False) -> None:
        with self._lock:
            for source, tail in self._tails:
                with acting_as(self._uid):
                    lines = tail.lines(rest=rest)
                for line in lines:
                    self._take_line(source, line)

    def _watch(self) -> None:
        while not self._done.wait(LOOK_S):
            self._read()

    def _take_line(self, source: Source, line: str) -> None:
        is_text = source is Source.FILE and not line.lstrip().startswith("{")
        if is_text and self._pattern:
            for status in LogPattern(self._pattern).statuses(f"{line}\n", self._clock()):
                self._take(source, status)
            return
        try:
            self._take(source, status_in_line(line, self._job_id, self._clock()))
        except StatusError as error:
            self._refuse(f"{error}; progress.pattern would read it" if is_text else str(error))

    def _take(self, source: Source, status: Status) -> None:
        if source > self._best:
            return
        self._best = source
        self._emit(status)

    def _refuse(self, sentence: str) -> None:
        with self._refusing:
            self._refused += 1
            self._last = sentence
            if self._refused <= MOST_REFUSED:
                more = "; further ones are left out without a word" if self._refused == MOST_REFUSED else ""
                self._emit(Refused(sentence + more, self._refused))
            elif self._refused.bit_count() == 1:  # a power of two: told seldom, however many there are
                self._emit(Refused(sentence, self._refused, logged=False))

    def tell_refused(self) -> None:
        """Tell how many statuses were not taken, before the end of the program."""
        with self._refusing:
            if self._refused > MOST_REFUSED:
                self._emit(Refused(self._last, self._refused, logged=False))

    def posted(self, body: bytes, token: str) -> str:
        """Take a status that a trainer posted; return why it was not taken, or "".

        token: what it was given to show whose it is, which is the job's id; "" where it showed nothing.
        """
        try:
            if token not in ("", self._job_id):
                raise StatusError(f"status: it is of job {token}, and this is {self._job_id}; it was left out")
            said = json.loads(body)
            if not isinstance(said, dict):
                raise StatusError("status: it is no JSON object; it was left out")
            self._take(Source.TRAINER, status_of(trainer_status(said), self._job_id, self._clock()))
        except StatusError as error:
            self._refuse(str(error))
            return str(error)
        except (ValueError, RecursionError):
            sentence = "status: what the trainer posted is no JSON; it was left out"
            self._refuse(sentence)
            return sentence
        return ""

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        sources = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = min(int(self.headers.get("Content-Length") or 0), MOST_BYTES)
                token = (self.headers.get("Authorization") or "").removeprefix("Bearer ").strip()
                why = sources.posted(self.rfile.read(length), token)
                answer = (why or "ok").encode()
                self.send_response(400 if why else 200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Write nothing: the worker's output is no place for requests."""

        return Handler


def trainer_environment(address: str, token_file: str) -> dict[str, str]:
    """Return the variables by which Hugging Face's trainer finds an endpoint for its status."""
    return {"KUBEFLOW_TRAINER_SERVER_URL": address, "KUBEFLOW_TRAINER_SERVER_TOKEN": token_file}


def beside_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep what is posted to this machine from going to a proxy."""
    told = {}
    for name in ("no_proxy", "NO_PROXY"):
        known = [host for host in environment.get(name, "").split(",") if host]
        told[name] = ",".join(dict.fromkeys([*known, LOOPBACK]))
    return told


def trainer_status(posted: Mapping[str, Any]) -> dict[str, Any]:
    """Return a posted status with our names of its amounts."""
    inner = posted.get("trainerStatus")
    said = dict(inner) if isinstance(inner, Mapping) else dict(posted)
    metrics = said.pop("metrics", None) or []
    found: dict[str, Any] = {"percent": said["progressPercentage"]} if "progressPercentage" in said else {}
    for metric in metrics if isinstance(metrics, list) else []:
        if isinstance(metric, Mapping) and isinstance(metric.get("name"), str):
            try:
                found[metric["name"]] = float(metric["value"])
            except (KeyError, TypeError, ValueError, OverflowError):
                continue
    if isinstance(metrics, Mapping):
        found |= dict(metrics)
    if "job_id" in posted:
        found["job_id"] = posted["job_id"]
    return found
