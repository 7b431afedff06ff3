"""Real training processes of one job without Ray: the part of an executor that tests and benchmarks need.

with TrainingGroup(script, tmp_path) as job:
    a, b = job.start(2)
    job.join([a, b])
    ...
    job.finish()
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from coadapt.executor import protocol
from coadapt.executor.config import TrainingConfig
from coadapt.executor.protocol import (
    Abort,
    BatchPlan,
    Broken,
    Command,
    Crashed,
    Event,
    Finished,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    Ready,
    Report,
    Stop,
)

EventType = TypeVar("EventType")
WAIT_S = 90.0

# The script most tests train with.
SCRIPT = Path(__file__).with_name("elastic_script.py")


def run_script(out: Path, *args: str, processes: int = 0) -> dict[str, object]:
    """Final state of the script: alone, or under torchrun with so many processes."""
    out.mkdir()
    launch = [sys.executable]
    if processes:
        launch += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [*launch, str(SCRIPT), f"--out={out}", *args]
    env = {key: value for key, value in os.environ.items() if not key.startswith("COADAPT")}
    env["OMP_NUM_THREADS"] = "1"
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    return torch.load(out / "final.pt")


class Member:
    """One training process and what it said so far."""

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection, log: Path) -> None:
        self.process = process
        self.log = log
        self.events: list[Event] = []
        self._times: list[float] = []
        self._connection = connection
        self._heard = threading.Condition()
        self._closed = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, command: Command) -> None:
        self._connection.send(command)

    def wait(
        self, kind: type[EventType], condition: Callable[[EventType], bool] = lambda event: True
    ) -> EventType:
        """The first event of a kind (from the beginning) that meets a condition."""

        def found() -> EventType | None:
            return next((event for event in self.events if isinstance(event, kind) and condition(event)), None)

        with self._heard:
            self._heard.wait_for(lambda: found() is not None or self._closed, WAIT_S)
            event = found()
        assert event is not None, f"no {kind.__name__}; heard {self.events[-5:]}; said:\n{self.output()}"
        return event

    def all(self, kind: type[EventType]) -> list[EventType]:
        return [event for event in self.events if isinstance(event, kind)]

    def time_of(self, event: Event) -> float:
        """When an event arrived, on `time.perf_counter`."""
        return self._times[next(i for i, other in enumerate(self.events) if other is event)]

    def reached(self, steps: int) -> None:
        """Wait until it said that it made so many steps."""

        def far(event: Event) -> bool:
            if isinstance(event, Heartbeat | Joined | Broken):
                return event.steps >= steps
            return isinstance(event, Report) and event.progress.steps >= steps

        self.wait(object, lambda event: far(event))  # type: ignore[arg-type]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def exit_code(self) -> int:
        code = self.process.wait(WAIT_S)
        self._reader.join(10)
        return code

    def output(self) -> str:
        return self.log.read_text()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        self._reader.join(10)
        self._connection.close()

    def _read(self) -> None:
        while True:
            try:
                event = self._connection.recv()
            except (EOFError, OSError):
                break
            with self._heard:
                self.events.append(event)
                self._times.append(time.perf_counter())
                self._heard.notify_all()
        with self._heard:
            self._closed = True
            self._heard.notify_all()


class TrainingGroup:
    """The processes of one job; hosts their store and counts their generations."""

    def __init__(
        self,
        script: Path,
        folder: Path,
        training: TrainingConfig | None = None,
        checkpoints: bool = True,
        env: dict[str, str] | None = None,
        args: Sequence[str] = (),
    ) -> None:
        self.script = script
        self.folder = folder
        self.training = training or TrainingConfig(report_interval_s=0.2)
        self.args = list(args)
        self.generation = 0
        self.members: list[Member] = []  # all that were ever started
        self.group: list[Member] = []
        self._env = dict(env or {})
        if checkpoints:
            self._env[protocol.CHECKPOINT_URL] = str(folder / "checkpoints")
        self._store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def __enter__(self) -> TrainingGroup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            member.close()

    def start(self, count: int = 1, env: dict[str, str] | None = None, ready: bool = True) -> list[Member]:
        """Start processes; with `ready` they have all reached `prepare` when this returns."""
        started = [self._start(env or {}) for _ in range(count)]
        if ready:
            for member in started:
                member.wait(Ready)
        return started

    def join(self, members: Sequence[Member], batch: BatchPlan | None = None, wait: bool = True) -> int:
        """Make `members` the next group; the others of the last one leave. Returns the generation."""
        self.generation += 1
        leavers = [member for member in self.group if member not in members and member.process.poll() is None]
        for rank, member in enumerate(members):
            member.send(
                Join(
                    self.generation,
                    rank,
                    len(members),
                    1,
                    rank,
                    len(members),
                    "127.0.0.1",
                    self._store.port,
                    batch,
                )
            )
        for member in leavers:
            member.send(Leave(self.generation))
        self.group = list(members)
        if wait:
            self.wait_joined()
            for member in leavers:
                member.wait(Left)
        return self.generation

    def wait_joined(self) -> list[Joined]:
        generation = self.generation
        return [member.wait(Joined, lambda event: event.generation == generation) for member in self.group]

    def abort(self) -> None:
        """Tell the group that one of it is gone."""
        for member in self.group:
            if member.process.poll() is None:
                member.send(Abort(self.generation))

    def stop(self, save: bool = True) -> list[Left]:
        """Stop the whole group and wait for its end."""
        for member in self.group:
            member.send(Stop(save))
        left = [member.wait(Left) for member in self.group]
        for member in self.group:
            assert member.exit_code() == 0, member.output()
        self.group = []
        return left

    def finish(self) -> list[Finished]:
        """Wait until the group's script has come to its end everywhere."""
        finished = [member.wait(Finished) for member in self.group]
        for member in self.group:
            assert member.exit_code() == 0, member.output()
        return finished

    def crash(self) -> Crashed:
        return self.group[0].wait(Crashed)

    def _start(self, env: dict[str, str]) -> Member:
        ours, theirs = socket.socketpair()
        log = self.folder / f"process-{len(self.members)}.log"
        environment: dict[str, str] = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "COADAPT_TEST_ID": str(len(self.members)),
            protocol.TRAINING_JSON: self.training.model_dump_json(),
            protocol.GPU_TYPE: "cpu",
            **self._env,
            **env,
            protocol.CHANNEL_FD: str(theirs.fileno()),
        }
        process = self._launch(environment, theirs, log)
        theirs.close()
        member = self._member(process, Connection(ours.detach()), log)
        self.members.append(member)
        return member

    def _launch(self, environment: dict[str, str], channel: socket.socket, log: Path) -> Any:
        with log.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-u", "-m", "coadapt.executor.process", str(self.script), *self.args],
                env=environment,
                pass_fds=(channel.fileno(),),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _member(self, process: Any, connection: Connection, log: Path) -> Member:
        return Member(process, connection, log)
