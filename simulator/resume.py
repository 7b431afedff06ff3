"""Simulations that are stopped and go on: a resume point is the whole run in one file, written every so often.

It is a line of JSON that says what it is, and a pickle. A pickle runs code when it is read: go on with files of
your own only. One of other inputs, of another version of the project or torn is refused before it is unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .engine.errors import RunFailed
from .engine.outcome import Outcome
from .results.identity import MADE_BY, check_same, project
from .run import Simulation

FORMAT, VERSION = "coadapt-resume-point", 1
NAME = "resume.point"
EVERY_S = 60.0  # wall time between two resume points
_MOST_HEADER = 1 << 20
_LEAST_USEFUL = 20  # times as long as a resume point takes to write, until the next


class Paused(Exception):
    """A run was stopped from outside and its resume point written; how far it was, in words."""


def run(make: Callable[[], Simulation], path: Path, about: Mapping[str, Any], every_s: float = EVERY_S) -> Outcome:
    """Run to the end, from the resume point `path` if it is there, and keep it up to date on the way.

    `about`: the inputs, as JSON values. Ctrl-C ends the round it falls into, a second one ends at once.

    Raises Paused after a Ctrl-C, ValueError where the resume point is refused or cannot be written.
    """
    simulation = read(path, about) if path.exists() else make()
    wait_s, written_s = every_s, time.monotonic()
    with _interrupts() as interrupted:
        try:
            while simulation.step():
                if interrupted.is_set():
                    write(simulation, path, about)
                    raise Paused(simulation.progress())
                if (start_s := time.monotonic()) - written_s >= wait_s:
                    write(simulation, path, about)
                    written_s = time.monotonic()
                    wait_s = max(every_s, _LEAST_USEFUL * (written_s - start_s))
        except RunFailed:
            path.unlink(missing_ok=True)
            raise
    return simulation.outcome()


def write(simulation: Simulation, path: Path, about: Mapping[str, Any]) -> None:
    """All of it or nothing. Raises ValueError where it cannot be written."""
    state = pickle.dumps(simulation, protocol=pickle.HIGHEST_PROTOCOL)
    header = {
        "format": FORMAT,
        "version": VERSION,
        MADE_BY: project(),
        "about": dict(about),
        "sha256": hashlib.sha256(state).hexdigest(),
    }
    beside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(json.dumps(header).encode() + b"\n" + state)
        os.replace(beside, path)
    except OSError as error:
        raise ValueError(f"{path}: cannot be written: {error.strerror or error}") from None


def read(path: Path, about: Mapping[str, Any]) -> Simulation:
    """Raises ValueError, in one sentence, for what is no whole resume point of these inputs and this version."""
    try:
        with path.open("rb") as file:
            header = json.loads(file.readline(_MOST_HEADER))
            state = file.read()
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: is no resume point: {error}; remove it to begin anew") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{path}: is no resume point; remove it to begin anew")
    if header.get("version") != VERSION or header.get(MADE_BY) != project():
        raise ValueError(
            f"{path}: was written by another version of Coadapt, Python or its libraries; remove it to begin anew"
        )
    check_same(path.parent, header.get("about", {}), about)
    if hashlib.sha256(state).hexdigest() != header.get("sha256"):
        raise ValueError(f"{path}: is torn, its digest differs; remove it to begin anew")
    found = pickle.loads(state)
    if not isinstance(found, Simulation):
        raise ValueError(f"{path}: holds no simulation; remove it to begin anew")
    return found


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Set by a Ctrl-C; the next one is what it was before."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked  # signals are the main thread's
        return
    before = signal.getsignal(signal.SIGINT)

    def ask(*_: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
