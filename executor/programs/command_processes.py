"""The processes of a command on one node: started together, followed to their ends, and told to end."""

from __future__ import annotations

import os
import queue
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...core.doors import Processes
from ..protocol.command_events import (
    Begin,
    Begun,
    CommandEvent,
    CommandOrder,
    Ended,
    Located,
    Said,
    Terminate,
)
from ..protocol.worker_events import Exited
from ..sandbox.line import NO_SANDBOX, Sandbox
from ..sandbox.ownership import give
from .environment import common_environment, rank_environment
from .errors import summary_of_end
from .guarded import GuardedProgram, HowItEnded, NotStarted
from .status_lines import LogPattern
from .status_sources import StatusSources, beside_proxies

LAST_CHARACTERS = 16_384  # of output, searched for the error that ended a process
NOT_STARTED = 127  # a shell's status for a program that cannot be started


@dataclass(frozen=True)
class CommandLaunch:
    """Describe what to run on a node.

    `env` is added to what the line lets through of the worker's own. `status_file` and `pattern` are those of the
    job's file. `pace` is the part of the time that processes may run.
    """

    job_id: str
    command: tuple[str, ...]
    processes: Processes
    count: int
    gpus: int
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    status_file: str = ""
    pattern: str = ""
    called: str = "the program"  # as sentences name it
    pace: float = 1.0
    sandbox: Sandbox = NO_SANDBOX
    pip: Sequence[str] = ()  # requirements, which a worker installs
    earlier: int = 0  # starts before those that the orders to begin count


class CommandProcesses:
    """Run the processes of one node once; `emit` receives their events, and last `Exited`.

    keep: file descriptors that stay open until all processes are gone.
    no_room: what an emulated GPU says that has too little memory left; the processes end with it at once.
    cores: that all processes together keep to; none: to no cores.
    """

    def __init__(
        self,
        launch: CommandLaunch,
        emit: Callable[[CommandEvent | Exited], None],
        keep: Sequence[int] = (),
        clock: Callable[[], float] = time.time,
        no_room: str = "",
        cores: Sequence[int] = (),
    ) -> None:
        self._launch, self._emit, self._keep, self._clock = launch, emit, keep, clock
        self._no_room, self._cores = no_room, cores
        self._speed = 1.0  # of an emulated GPU, over that alone
        self._orders: queue.SimpleQueue[CommandOrder | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._programs: list[GuardedProgram] = []
        self._ending = False

    def run(self, host: str) -> None:
        """Say where this node is, wait for the order to begin, and follow all processes to their ends."""
        self._emit(Located(host, free_port()))
        order = self._orders.get()
        if isinstance(order, Begin):
            with ExitStack() as stack:
                self._run(order, stack)
        self._emit(Exited(0))

    def send(self, order: CommandOrder) -> None:
        """Take an order. The first one begins, or ends what has not begun."""
        if isinstance(order, Terminate):
            with self._lock:
                self._ending = True
                for program in self._programs:
                    program.terminate(order.grace_s)
        self._orders.put(order)

    def slow(self, speed: float) -> None:
        """Let the processes run for the part of their time that a partner on their GPU leaves them."""
        with self._lock:
            self._speed = speed
            for program in self._programs:
                program.keep_pace(self._launch.pace * speed)

    def keep_to(self, cores: Sequence[int]) -> None:
        """Let all processes run on other cores from now on; none: on all."""
        with self._lock:
            self._cores = cores
            for program in self._programs:
                program.keep_to(cores)

    def kill(self) -> None:
        """End all processes now."""
        with self._lock:
            self._ending = True
            for program in self._programs:
                program.kill()
        self._orders.put(None)

    def _run(self, order: Begin, stack: ExitStack) -> None:
        launch, leads = self._launch, order.first_rank == 0
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coadapt-status-")))
        uid = launch.sandbox.line.uid
        sandbox = replace(launch.sandbox, own=(*launch.sandbox.own, str(folder)))
        sources = StatusSources(launch.job_id, self._emit, self._clock, launch.pattern, uid)
        told: dict[str, str] = {}
        if leads:
            stack.callback(sources.close)
            told = sources.open(folder, self._own_file())
        give(folder, uid)
        status_file = str(folder / "status.jsonl") if leads else ""
        common = common_environment(order, launch.earlier, status_file, told)
        followers = []
        for local_rank in range(launch.count):
            heard = sources if leads and local_rank == 0 else None
            program = self._start(order, local_rank, common, sandbox, heard)
            if program is not None:
                followers.append(program)
        self._emit(Begun(order.generation, tuple(pid for pid, _ in followers)))
        for _, follower in followers:
            follower.start()
        for _, follower in followers:
            follower.join()

    def _own_file(self) -> Path | None:
        """Return the file of the job's own where it says how far it is."""
        name = self._launch.status_file
        if not name:
            return None
        return Path(self._launch.cwd or os.getcwd()) / name

    def _start(
        self,
        order: Begin,
        local_rank: int,
        common: Mapping[str, str],
        sandbox: Sandbox,
        sources: StatusSources | None,
    ) -> tuple[int, threading.Thread] | None:
        """Start a process; return its id and the thread that will follow it, or None where it did not start."""
        launch, rank = self._launch, order.first_rank + local_rank
        output = _LastOutput()
        pattern = LogPattern(launch.pattern) if launch.pattern and sources is not None else None

        def said(text: str) -> None:
            output.add(text)
            self._emit(Said(rank, text))
            heard(text)

        def heard(text: str) -> None:
            if pattern is not None and sources is not None:
                for status in pattern.statuses(text, self._clock()):
                    sources.from_log(status)

        env = {**launch.sandbox.environment(os.environ, launch.env, launch.cwd or os.getcwd()), **common}
        env |= beside_proxies(env)
        env |= rank_environment(order, local_rank, launch.count, launch.processes, launch.gpus)
        with self._lock:
            if self._ending:
                self._emit(Ended(rank, -15))
                return None
            if self._no_room:
                error = f"torch.OutOfMemoryError: {self._no_room}"
                self._emit(Said(rank, f"{error}\n"))
                self._emit(Ended(rank, 1, error, error))
                return None
            pace = launch.pace * self._speed
            try:
                program = GuardedProgram(
                    launch.command, env, launch.cwd, said, self._keep, pace, sandbox, self._cores
                )
            except NotStarted as error:
                self._emit(Ended(rank, NOT_STARTED, str(error)))
                return None
            self._programs.append(program)

        def follow() -> None:
            ended = program.wait()
            heard("\n")  # nothing ends the last line of many a progress bar
            self._tell_end(rank, ended, output, sources)

        return program.pid, threading.Thread(target=follow, daemon=True)

    def _tell_end(self, rank: int, ended: HowItEnded, output: _LastOutput, sources: StatusSources | None) -> None:
        if sources is not None:
            sources.read_rest()
            sources.tell_refused()
        summary, traceback = "", ""
        if ended.code != 0:
            how = Exited(ended.code).reason
            summary, traceback = summary_of_end(self._launch.called, ended.code, how, output.text)
        self._emit(Ended(rank, ended.code, summary, traceback, ended.overdue, ended.left))


class _LastOutput:
    """The end of what a process has written."""

    def __init__(self) -> None:
        self.text = ""

    def add(self, text: str) -> None:
        self.text = (self.text + text)[-LAST_CHARACTERS:]


def free_port() -> int:
    """Return a port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port
