"""Start one training process and follow it to its end, without Ray.

The machine's template forks it in milliseconds (`template.py`), or else it is started as any program. Either way
it has its own session, so that whatever it starts (data loader workers, shells) ends with it.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Protocol

from ..protocol.messages import CHANNEL_FD, JOB_ID, Command, Crashed, Event
from ..protocol.script_errors import error_behind
from ..protocol.wire import EVENTS, MessageError, Wire
from ..protocol.worker_events import Exited, Output, Started, WorkerEvent
from ..sandbox.line import NO_SANDBOX, Sandbox
from . import template_client
from .output_reader import read_output
from .template_wire import ForkRequest, Owner, loaded_with, with_paths, without_relative_paths

log = logging.getLogger(__name__)

LAST_CHARACTERS = 4000  # of output, searched for the reason of an abort
DRAIN_S = 2.0  # after the exit, to read what is still in the pipes


@dataclass(frozen=True)
class Launch:
    """Describe what to run: `python -m coadapt.executor.training.process script args…`."""

    script: str
    args: Sequence[str]
    env: Mapping[str, str]  # added to what the line lets through of the worker's own
    cwd: str | None = None  # by default the worker's own
    paths: Sequence[str] = ()  # folders to import from, after the script's own
    owner: Owner | None = None  # on whose behalf a template may be used
    sandbox: Sandbox = NO_SANDBOX
    pip: Sequence[str] = ()  # requirements, which a worker installs
    python: str = ""  # the interpreter, by default this process's own

    @property
    def command(self) -> list[str]:
        return [
            self.python or sys.executable,
            "-u",
            "-m",
            "coadapt.executor.training.process",
            self.script,
            *self.args,
        ]


class Process(Protocol):
    """Be a process that has its own session."""

    @property
    def pid(self) -> int: ...

    def wait(self) -> int:
        """Wait until it and all it started are gone; return the exit code, negative for a signal."""

    def kill(self) -> None:
        """End it and everything it started, now."""


class TrainingProcess:
    """Run one process; `emit` receives its events, its output and, last, its exit.

    The thread that calls `run` must outlive the process, which the kernel ends with it (PR_SET_PDEATHSIG).
    """

    def __init__(self, launch: Launch, emit: Callable[[Event | WorkerEvent], None]) -> None:
        self._launch = launch
        self._emit = emit
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._wire: Wire | None = None
        self._killed = False
        self._last_output = ""

    def run(self) -> int:
        """Start the process and wait for its end; return the exit code, negative for a signal."""
        if self._killed:
            self._emit(Exited(-signal.SIGKILL))
            return -signal.SIGKILL
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        try:
            process = self._start(theirs.fileno(), write)
        finally:
            theirs.close()
            os.close(write)
        output = os.fdopen(read, "rb")
        with self._lock:
            self._process = process
            self._wire = wire = Wire(ours.detach(), EVENTS, self._launch.env.get(JOB_ID, ""))
            if self._killed:
                process.kill()
        self._emit(Started(process.pid, os.uname().nodename))
        readers = [
            threading.Thread(target=self._read_events, args=(wire,), daemon=True),
            threading.Thread(target=self._read_output, args=(output,), daemon=True),
        ]
        for reader in readers:
            reader.start()
        code = process.wait()
        with self._lock:
            self._process = None
        for reader in readers:
            reader.join(DRAIN_S)
        if told := error_behind(code, self._last_output):
            self._emit(Crashed(told, ""))
        self._emit(Exited(code))
        return code

    def send(self, command: Command) -> None:
        """Hand a command to the process; nothing happens if it has just ended, which `Exited` reports."""
        with self._lock:
            wire = self._wire
        if wire is not None:  # it may wait for a process that does not listen, which can be killed meanwhile
            with suppress(OSError):
                wire.send(command)

    def kill(self) -> None:
        """End the process and everything it started, now."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def _start(self, channel: int, output: int) -> Process:
        launch = self._launch
        if launch.owner is not None and launch.sandbox.may_fork(loaded_with(launch.env), bool(launch.python)):
            cwd = launch.cwd or os.getcwd()
            env, paths = without_relative_paths(launch.sandbox.environment(os.environ, launch.env, cwd), cwd)
            request = ForkRequest(
                launch.script,
                launch.args,
                env,
                cwd,
                [*launch.paths, *paths],
                launch.owner,
                uid=launch.sandbox.line.uid,
                python=launch.python,
            )
            try:
                return template_client.fork(request, channel, output, lambda: self._killed)
            except template_client.NoTemplate as error:
                log.info("started without a template: %s", error)
        return Program(launch, channel, output)

    def _read_events(self, wire: Wire) -> None:
        """Pass on what the process says. A message that is none ends it, as nothing after it can be trusted."""
        try:
            while True:
                self._emit(wire.receive())
        except (EOFError, OSError) as error:
            log.info("a training process says nothing more: %s", error)
        except MessageError as error:
            self._emit(Crashed(f"the training process sent its worker what is no message: {error}", ""))
            self.kill()

    def _read_output(self, stream: IO[bytes]) -> None:
        def pass_on(text: str) -> None:
            self._last_output = (self._last_output + text)[-LAST_CHARACTERS:]
            self._emit(Output(text))

        read_output(stream, pass_on)


class Program:
    """Start and follow a process as any program."""

    def __init__(self, launch: Launch, channel: int, output: int) -> None:
        cwd, sandbox = launch.cwd or os.getcwd(), launch.sandbox
        env = with_paths(sandbox.environment(os.environ, launch.env, cwd), launch.paths)
        self._sandbox = sandbox
        self._process = subprocess.Popen(
            sandbox.command(launch.command, cwd, env),
            env={**env, CHANNEL_FD: str(channel)},
            cwd=cwd,
            pass_fds=(channel,),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **sandbox.rights,
        )
        self.pid = self._process.pid

    def wait(self) -> int:
        # Look before reaping: while the leader is a zombie its group id cannot be anyone else's.
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self._kill_group()
        return self._sandbox.exit_code(self._process.wait())

    def kill(self) -> None:
        if self._process.returncode is None:
            self._kill_group()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
