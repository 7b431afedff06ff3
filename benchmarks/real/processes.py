"""Processes that run a script: alone, under torchrun, or as members of a managed group.

Each is forked from a server that has imported torch once, so that hundreds of them start in a minute. A member
of a group tells its driver before it ends a step, and may be held there, so that events come at chosen steps.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import random
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .reference import Phase, PlainDdp

# Imported by the fork server, before any process is forked from it.
_PRELOADED = [
    "torch",
    "torch._dynamo",  # which torch imports itself with the first optimizer
    "torch.distributed.run",
    "torch.optim.lr_scheduler",
    "numpy",
    "coadapt.executor.training.process",
]

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(_PRELOADED)
_server = (
    threading.RLock()
)  # starting a process looks at all others, and each is to be looked at by one thread only


class Process:
    """A process of the fork server, with the part of `subprocess.Popen` that `TrainingGroup` uses."""

    def __init__(self, target: Any, *arguments: Any) -> None:
        with _server:
            os.environ.setdefault("OMP_NUM_THREADS", "1")  # the server's, which is started by the first process
            self._process = _context.Process(target=target, args=arguments)
            self._process.start()
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        with _server:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        until_s = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left_s = 1.0 if until_s is None else until_s - time.monotonic()
            if left_s <= 0:
                raise subprocess.TimeoutExpired("script", timeout or 0.0)
            multiprocessing.connection.wait([self._process.sentinel], min(left_s, 1.0))
        return code

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


# --- in the process ---------------------------------------------------------------------------------------


def run_alone(script: Path, environment: Mapping[str, str], folder: Path, args: Sequence[str] = ()) -> None:
    """Run `python script args…`, and write what it reports, by epoch, into `reported.pickle`."""
    _begin(environment, folder, folder / "alone.log")
    recorded: dict[int, dict[str, Any]] = {}
    _record(recorded)
    code = _run(script, args)
    (folder / "reported.pickle").write_bytes(pickle.dumps(recorded))
    _leave(code)


def run_ddp(script: Path, environment: Mapping[str, str], folder: Path, phases: Sequence[Phase]) -> None:
    """Run `python script` as plain DDP would train it."""
    from coadapt.executor.training.sessions.session import AloneSession

    _begin(environment, folder, folder / "alone.log")
    alone = AloneSession.__init__

    def begin(self: AloneSession, prepared: Any) -> None:
        alone(self, prepared)
        PlainDdp(prepared, phases, prepared.least_local_bsz)

    AloneSession.__init__ = begin  # type: ignore[method-assign]
    _leave(_run(script))


def run_torchrun(script: Path, environment: Mapping[str, str], folder: Path, processes: int) -> None:
    """Run `torchrun --nproc-per-node=… script`; its processes are forked from the agent."""
    from torch.distributed.run import main

    _begin(environment, folder, folder / "torchrun.log")
    sys.path[0] = str(script.parent)  # as where `python script` starts the processes
    launch = ["--standalone", f"--nproc-per-node={processes}", "--run-path", "--start-method=fork"]
    try:
        main([*launch, str(script)])
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 1
    _leave(code)


def run_member(
    script: Path,
    environment: Mapping[str, str],
    folder: Path,
    log: Path,
    channel: Connection,
    driver: Connection | None,
    pause_s: float,
    args: Sequence[str] = (),
) -> None:
    """Run a process of a managed group as a worker starts it; without a driver it trains as fast as it can."""
    from coadapt.executor.protocol import messages
    from coadapt.executor.training import process

    _begin({**environment, messages.CHANNEL_FD: str(os.dup(channel.fileno()))}, folder, log)
    if driver is not None:
        _hold_at_steps(driver, pause_s)
    process.leave(process.main([str(script), *args]))


def _begin(environment: Mapping[str, str], folder: Path, log: Path) -> None:
    """Make this process a fresh one with this environment, whose output goes into `log`."""
    import numpy as np
    import torch

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    multiprocessing.set_start_method("fork", force=True)
    random.seed()
    np.random.seed()  # noqa: NPY002 (the state a script finds)
    torch.set_num_threads(1)


def _run(script: Path, args: Sequence[str] = ()) -> int:
    sys.argv = [str(script), *args]
    sys.path[0] = str(script.parent)
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _leave(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _record(recorded: dict[int, dict[str, Any]]) -> None:
    """Note what a script that runs alone reports in each epoch."""
    from coadapt.executor.training.sessions.metrics import as_number
    from coadapt.executor.training.sessions.session import AloneSession

    running = [0]
    epochs = AloneSession.epochs

    def counted(self: AloneSession, count: int) -> Iterator[int]:
        for epoch in epochs(self, count):
            running[0] = epoch
            yield epoch

    def report(self: AloneSession, metrics: dict[str, Any], how: dict[str, str]) -> None:
        numbers = {name: as_number(name, value) for name, value in metrics.items()}
        recorded.setdefault(running[0], {}).update(numbers)

    AloneSession.epochs = counted  # type: ignore[method-assign]
    AloneSession.report = report  # type: ignore[method-assign]


def _hold_at_steps(driver: Connection, pause_s: float) -> None:
    """Pause after each optimizer step, and let the driver hold the process of rank 0."""
    from coadapt.executor.training import api
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def after_step(*_: Any) -> None:
        session = api.current()
        time.sleep(pause_s)
        if session is None or session.rank != 0:
            return
        with suppress(EOFError, OSError):  # the driver has let everyone go
            driver.send(session.position.steps)  # type: ignore[attr-defined]
            driver.recv()

    register_optimizer_step_post_hook(after_step)
