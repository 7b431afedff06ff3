"""Starting one training process and following it to its end: no Ray in here.

The process gets a session of its own, so that whatever it starts (data loader workers, shells) ends with it.
"""

from __future__ import annotations

import codecs
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import IO

from .lifecycle import Exited, Output, Started, WorkerEvent
from .protocol import CHANNEL_FD, Command, Event

PIECE_BYTES = 16384  # of output, at most; longer lines come in pieces
MOMENT_S = 0.1  # what is no line yet comes so long after the script has written it
DRAIN_S = 2.0  # after the exit, for what is still in the pipes


@dataclass(frozen=True)
class Launch:
    """What to run: `python -m coadapt.executor.process script args…`."""

    script: str
    args: Sequence[str]
    env: Mapping[str, str]  # added to the worker's own
    cwd: str | None = None

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-u", "-m", "coadapt.executor.process", self.script, *self.args]


class TrainingProcess:
    """One process; `emit` receives its events, its output and, last, its exit.

    `run` must be called by a thread that outlives the process: the kernel ends the process with the thread that
    started it (PR_SET_PDEATHSIG).
    """

    def __init__(self, launch: Launch, emit: Callable[[Event | WorkerEvent], None]) -> None:
        self._launch = launch
        self._emit = emit
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._killed = False

    def run(self) -> int:
        """Start the process and wait for its end. Returns the exit code, negative for a signal."""
        ours, theirs = socket.socketpair()
        with self._lock:
            if self._killed:
                self._emit(Exited(-signal.SIGKILL))
                return -signal.SIGKILL
            self._process = process = self._start(theirs.fileno())
            self._connection = Connection(ours.detach())
        theirs.close()
        self._emit(Started(process.pid, os.uname().nodename))
        readers = [
            threading.Thread(target=self._read_events, args=(self._connection,), daemon=True),
            threading.Thread(target=self._read_output, args=(process.stdout,), daemon=True),
        ]
        for reader in readers:
            reader.start()
        # Look before reaping: while the leader is a zombie its group id cannot be anyone else's.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self._kill_group(process.pid)
        code = process.wait()
        for reader in readers:
            reader.join(DRAIN_S)
        self._emit(Exited(code))
        return code

    def send(self, command: Command) -> None:
        """Hand a command to the process; lost without a word when it has just ended (`Exited` tells)."""
        with self._lock:
            if self._connection is not None:
                with suppress(OSError):
                    self._connection.send(command)

    def kill(self) -> None:
        """End the process and everything it started, now."""
        with self._lock:
            self._killed = True
            if self._process is not None and self._process.returncode is None:
                self._kill_group(self._process.pid)

    def _start(self, fd: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._launch.command,
            env={**os.environ, **self._launch.env, CHANNEL_FD: str(fd)},
            cwd=self._launch.cwd,
            pass_fds=(fd,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @staticmethod
    def _kill_group(pid: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)

    def _read_events(self, connection: Connection) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._emit(connection.recv())

    def _read_output(self, stream: IO[bytes]) -> None:
        """Whole lines at once; what is none yet, as a progress bar, after a moment."""
        decoder, waiting = codecs.getincrementaldecoder("utf-8")("replace"), ""
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        with suppress(OSError, ValueError):
            while True:
                data = (
                    None if waiting and not poll.poll(1000 * MOMENT_S) else os.read(stream.fileno(), PIECE_BYTES)
                )
                waiting += decoder.decode(data or b"", final=data == b"")
                whole = max(waiting.rfind("\n"), waiting.rfind("\r")) + 1
                if not data or len(waiting) >= PIECE_BYTES:
                    whole = len(waiting)
                if whole:
                    self._emit(Output(waiting[:whole]))
                    waiting = waiting[whole:]
                if data == b"":
                    return
