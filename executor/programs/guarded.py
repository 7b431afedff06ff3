"""Start one program behind a guard, and follow it: its output, how it ended, and what it left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..processes.output_reader import read_output
from ..sandbox.line import NO_SANDBOX, Sandbox
from .errors import why_not_started

_GUARD = str(Path(__file__).with_name("command_guard.py"))
DRAIN_S = 2.0  # after the end, to read what is still in the pipe


class NotStarted(RuntimeError):
    """The program could not be started; one sentence."""


@dataclass(frozen=True)
class HowItEnded:
    """`code` < 0: killed by signal -code. `overdue`: it went on after SIGTERM. `left`: processes left behind."""

    code: int
    overdue: bool = False
    left: int = 0


class GuardedProgram:
    """One program, from its start until all that it has started is gone.

    It ends with this process, however that ends. `keep` are file descriptors that stay open until then, such as
    locks of GPUs. `pace` is the part of the time that it may run. `sandbox` is the line around it. It keeps to
    `cores`; none: to no cores.

    Raises: NotStarted.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        said: Callable[[str], None],
        keep: Sequence[int] = (),
        pace: float = 1.0,
        sandbox: Sandbox = NO_SANDBOX,
        cores: Sequence[int] = (),
    ) -> None:
        control, self._control = os.pipe()
        result, told = os.pipe()
        output, written = os.pipe()
        variables = _file_of(env)
        inside = sandbox.command(command, cwd or os.getcwd(), env)
        uid, wrappers = -1 if sandbox.line.uid is None else sandbox.line.uid, sandbox.wrappers
        words = [control, told, repr(pace), _words_of(cores), variables, uid, wrappers, *inside]
        try:
            guard = subprocess.Popen(
                [sys.executable, "-I", "-S", _GUARD, *map(str, words)],
                env={"LANG": "C.UTF-8"},  # it is the worker's, and no variable of the job's has a say in it
                cwd=cwd,
                pass_fds=(control, told, variables, *keep),
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            for one in (self._control, result, output):
                os.close(one)
            raise NotStarted(f"{command[0]} could not be started: {error}") from error
        finally:
            for one in (control, told, written, variables):
                os.close(one)
        self._sandbox = sandbox
        self._lock = threading.Lock()
        self._result = os.fdopen(result)
        self._reader = threading.Thread(target=self._read, args=(output, said), daemon=True)
        self._reader.start()
        guard.wait()  # it has left its place to a child of its own
        answer = self._answer()
        if "pid" not in answer:
            self.wait()
            raise NotStarted(why_not_started(command, answer.get("error", "it could not be started")))
        self.pid = int(answer["pid"])

    def terminate(self, grace_s: float) -> None:
        """Ask it to end, and kill what is left after `grace_s` seconds."""
        self._order(f"{grace_s!r}\n".encode())

    def keep_pace(self, pace: float) -> None:
        """Run it for another part of the time from now on."""
        self._order(f"pace {pace!r}\n".encode())

    def keep_to(self, cores: Sequence[int]) -> None:
        """Let it and all that it has started run on other cores from now on; none: on all."""
        self._order(f"cores {_words_of(cores)}\n".encode())

    def kill(self) -> None:
        """End it and all that it has started, now."""
        with self._lock:
            if self._control >= 0:
                os.close(self._control)
                self._control = -1

    def wait(self) -> HowItEnded:
        """Wait until all are gone and all output is read."""
        answer = self._answer()
        self._reader.join(DRAIN_S)
        self._result.close()
        self.kill()
        if "code" in answer:
            return HowItEnded(
                self._sandbox.exit_code(int(answer["code"])), bool(answer["overdue"]), int(answer["left"])
            )
        return HowItEnded(-signal.SIGKILL)  # of the guard, and the program with it

    def _answer(self) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json.loads(self._result.readline())
        except ValueError:  # the guard was killed
            return {}
        return answer

    def _order(self, data: bytes) -> None:
        with self._lock, suppress(OSError):
            if self._control >= 0:
                os.write(self._control, data)

    @staticmethod
    def _read(output: int, said: Callable[[str], None]) -> None:
        with os.fdopen(output, "rb") as stream:
            read_output(stream, said)


def _words_of(cores: Sequence[int]) -> str:
    return ",".join(map(str, cores)) or "-"


def _file_of(env: Mapping[str, str]) -> int:
    """Return a file of memory that holds variables as JSON, which the guard reads."""
    file = os.memfd_create("coadapt-environment")
    with os.fdopen(os.dup(file), "wb") as writing:
        writing.write(json.dumps(dict(env)).encode())
    return file
