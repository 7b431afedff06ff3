"""Training processes that have torch already: forks of one Python that imported it.

Importing torch takes seconds of CPU, a fork milliseconds. The fork server is multiprocessing's own.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from coadapt.executor.protocol import messages
from coadapt.executor.rehearsal.group import TrainingGroup

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "pytest",  # the main module of the tests, which each process of the server imports
        "torch._dynamo",  # the first optimizer of a process imports it
        "torch.utils.data",
        "sklearn.datasets",
        "coadapt.executor.training.process",
        "coadapt.executor.rehearsal.rehearsed",
        __name__,
    ]
)


class WarmGroup(TrainingGroup):
    """Fork the processes of a job instead of starting Python anew for each."""

    def _launch(self, environment: dict[str, str], channel: socket.socket, log: Path) -> Any:
        log.touch()  # it is read of a process that was killed at once, too
        with Connection(channel.detach()) as end:
            cwd = self._cwd or Path.cwd()
            return Forked(self._module, [str(self.script), *self.args], environment, cwd, log, end)


class Forked:
    """Be what a `Member` asks of `subprocess.Popen`, for a process that is forked to run `module`."""

    def __init__(self, *request: Any) -> None:
        self._process = _context.Process(target=_become, args=request)
        self._process.start()

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("script", timeout or 0.0)
        return code

    def kill(self) -> None:
        """End it and what it started."""
        if self.poll() is None:
            self._process.kill()
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid or 0, signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self._process.pid or 0, number)


def _become(
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    log: Path,
    channel: Connection,
) -> None:
    """Do what `python -u -m module arguments…` does in a fresh process."""
    from coadapt.executor.training import process

    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    for text in (sys.stdout, sys.stderr):
        text.reconfigure(write_through=True)
    os.environ.clear()
    os.environ.update({**environment, messages.CHANNEL_FD: str(os.dup(channel.fileno()))})
    channel.close()
    tempfile.tempdir = None
    os.chdir(cwd)
    sys.path.insert(0, "")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    multiprocessing.set_start_method(None, force=True)
    process.leave(importlib.import_module(module).main(arguments))
