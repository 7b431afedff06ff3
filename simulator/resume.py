"""Simulations that are stopped and go on later.

A resume point is a file with the whole run, written at intervals. It has a line of JSON that says what it is,
and a pickle. A pickle runs code when it is read, so go on only with files of your own. A resume point is
refused before it is unpickled if it is torn, has other inputs or comes from another version.
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
_LEAST_USEFUL = 20  # the next point waits this many times as long as one takes to write


class Paused(Exception):
    """A run was stopped from outside, and its resume point is written. The message says how far it was."""


def run(make: Callable[[], Simulation], path: Path, about: Mapping[str, Any], every_s: float = EVERY_S) -> Outcome:
    """Run to the end, from the resume point `path` if it exists, and keep the point up to date.

    `about`: the inputs, as JSON values. The first Ctrl-C stops the run after the current round. A second one
    ends it at once.

    Raise Paused after a Ctrl-C. Raise ValueError if the resume point is refused or cannot be written.
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
    """Write the resume point, all of it or nothing. Raise ValueError if it cannot be written."""
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
    """Return the simulation that a resume point holds.

    Raise ValueError, in one sentence, if it is torn, or has other inputs or another version.
    """
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
    """Yield an event that the first Ctrl-C sets; the next Ctrl-C acts as it did before."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked  # only the main thread may handle signals
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
