"""Run scripts in processes that have torch already: forks of one Python that imported it.

Importing torch takes seconds of CPU, a fork milliseconds. The fork server is multiprocessing's own.
What a script sees is what `python script args…` gives it.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

IMPORTED = (
    "pytest",  # the main module of the tests, which each process of the server imports
    "torch._dynamo",  # the first optimizer of a process imports it
    "torch.utils.data",
    "torch.nn.parallel",
    "sklearn.datasets",  # most examples train on its digits
)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_context = multiprocessing.get_context("forkserver")


class Forked:
    """Be what is asked of `subprocess.Popen`, for a process that is forked to call a function.

    modules: those that it has imported already, beside torch. There is one server for each set of them.
    """

    def __init__(self, target: Callable[..., object], *args: Any, modules: tuple[str, ...] = ()) -> None:
        self._process = _context.Process(target=target, args=args)
        # multiprocessing asks one server, of its own, for every process.
        with patch.object(forkserver, "connect_to_new_process", _server(modules).connect_to_new_process):
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


@dataclass(frozen=True)
class Script:
    """Name a script, its arguments, what its environment has beside the tests' own, and its folder."""

    path: Path
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    cwd: Path | None = None


def run_together(scripts: Sequence[Script], modules: tuple[str, ...] = ()) -> list[str]:
    """Run scripts side by side to their ends; return what each printed. AssertionError if one fails."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder) / str(number) for number in range(len(scripts))]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("COADAPT")}
        processes = [
            Forked(
                _run,
                str(script.path),
                list(script.args),
                {**environment, **ONE_THREAD, **(script.env or {})},
                script.cwd or Path.cwd(),
                output,
                modules=modules,
            )
            for script, output in zip(scripts, outputs, strict=True)
        ]
        for process, output in zip(processes, outputs, strict=True):
            assert process.wait() == 0, output.with_suffix(".err").read_text()
        return [output.read_text() for output in outputs]


@cache
def _server(modules: tuple[str, ...]) -> forkserver.ForkServer:
    """Return the server of processes that have these modules; it ends with the tests."""
    server = forkserver.ForkServer()
    server.set_forkserver_preload([*IMPORTED, *modules])
    return server


# In the process that is forked


def become(environment: Mapping[str, str], cwd: Path) -> None:
    """Forget what the tests set in a process."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    tempfile.tempdir = None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    multiprocessing.set_start_method(None, force=True)


def _run(script: str, args: Sequence[str], environment: Mapping[str, str], cwd: Path, output: Path) -> NoReturn:
    status: object = 1
    try:
        for descriptor, path in enumerate((Path(os.devnull), output, output.with_suffix(".err"))):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), descriptor)
        become(environment, cwd)
        sys.argv = [script, *args]
        sys.path[0] = os.path.dirname(script)
        runpy.run_path(script, run_name="__main__")
        status = 0
    except SystemExit as leaving:
        status = leaving.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)
