"""Run real training processes of one job without Ray, as `coadapt check` and tests need it.

with TrainingGroup(script, folder) as job:
    a, b = job.start(2)
    job.join([a, b])
    ...
    job.finish()
"""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ...core.batch_plan import BatchPlan
from ...core.reports import Report
from ...core.training_config import TrainingConfig
from ..protocol import messages
from ..protocol.messages import (
    Abort,
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
    Stop,
)
from ..protocol.wire import EVENTS, MessageError, Wire

if TYPE_CHECKING:
    from torch.distributed import TCPStore

EventType = TypeVar("EventType")
WAIT_S = 90.0
LOOK_S = 0.02
MEMBER = "COADAPT_MEMBER"  # number of a process in its group
# Torchrun sets these in its processes, of which the caller may be one.
_OF_A_GROUP = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Crash(Exception):
    """Report that a process ended with an error, after so many steps of the group."""

    def __init__(self, event: Crashed, steps: int) -> None:
        super().__init__(event.summary)
        self.event = event
        self.steps = steps


class Hang(Exception):
    """Report that no process has sent anything for too long."""


class Unmet(Exception):
    """Report that the script did not do what was waited for."""


class Member:
    """Follow one training process and keep its events."""

    def __init__(self, process: subprocess.Popen[bytes], wire: Wire, log: Path) -> None:
        self.process = process
        self.log = log
        self.events: list[Event] = []
        self._times: list[float] = []
        self._wire = wire
        self._heard = threading.Condition()
        self._closed = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, command: Command) -> None:
        self._wire.send(command)

    def wait(
        self, kind: type[EventType], condition: Callable[[EventType], bool] = lambda event: True
    ) -> EventType:
        """Wait for an event of a kind that meets a condition; return the first. Raises: Unmet."""
        with self._heard:
            self._heard.wait_for(lambda: self.first(kind, condition) is not None or self._closed, WAIT_S)
            event = self.first(kind, condition)
        if event is None:
            raise Unmet(f"no {kind.__name__}; heard {self.events[-5:]}; said:\n{self.output()}")
        return event

    def first(
        self, kind: type[EventType], condition: Callable[[EventType], bool] = lambda event: True
    ) -> EventType | None:
        return next((event for event in self.events if isinstance(event, kind) and condition(event)), None)

    def all(self, kind: type[EventType]) -> list[EventType]:
        return [event for event in self.events if isinstance(event, kind)]

    def time_of(self, event: Event) -> float:
        """Return when an event arrived, on `time.perf_counter`."""
        return self._times[next(i for i, other in enumerate(self.events) if other is event)]

    @property
    def heard_s(self) -> float:
        """Return when its last event arrived, on `time.perf_counter`; 0 if none did."""
        return self._times[-1] if self._times else 0.0

    def reached(self, steps: int) -> None:
        """Wait until it has reported so many steps."""
        self.wait(object, lambda event: steps_told(event) >= steps)

    @property
    def said_goodbye(self) -> bool:
        return bool(self.all(Finished) or self.all(Left) or self.all(Crashed))

    @property
    def gone(self) -> bool:
        """Return whether it ended without reporting so, and all its events have arrived."""
        return self.process.poll() is not None and not self._reader.is_alive() and not self.said_goodbye

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def exit_code(self) -> int:
        code = self.process.wait(WAIT_S)
        self._reader.join(10)
        return code

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        self._reader.join(10)
        self._wire.close()

    def _read(self) -> None:
        while True:
            try:
                event: Event = self._wire.receive()
            except (EOFError, OSError, MessageError):
                break
            with self._heard:
                self.events.append(event)
                self._times.append(time.perf_counter())
                self._heard.notify_all()
        with self._heard:
            self._closed = True
            self._heard.notify_all()


class TrainingGroup:
    """Start the processes of one job, host their store and count their generations.

    Each has the caller's environment with `env` added, and without ranks. `module` runs the script, in `cwd`.
    """

    def __init__(
        self,
        script: Path,
        folder: Path,
        training: TrainingConfig | None = None,
        checkpoints: bool = True,
        env: dict[str, str] | None = None,
        args: Sequence[str] = (),
        module: str = "coadapt.executor.training.process",
        cwd: Path | None = None,
    ) -> None:
        self.script = script
        self.folder = folder
        self.training = training or TrainingConfig(report_interval_s=0.2)
        self.args = list(args)
        self.generation = 0
        self.members: list[Member] = []  # all that were ever started
        self.group: list[Member] = []
        self.killed: set[Member] = set()  # by the caller
        self.limit_s = WAIT_S  # how long `until` waits without any event
        self._module, self._cwd = module, cwd
        self._env = dict(env or {})
        if checkpoints:
            self._env[messages.CHECKPOINT_URL] = str(folder / "checkpoints")
        self._began_s = time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            member.close()

    def start(self, count: int = 1, env: dict[str, str] | None = None, ready: bool = True) -> list[Member]:
        """Start processes; with `ready`, return when all have reached `prepare`."""
        started = [self._start(env or {}) for _ in range(count)]
        if ready:
            for member in started:
                member.wait(Ready)
        return started

    def join(self, members: Sequence[Member], batch: BatchPlan | None = None, wait: bool = True) -> int:
        """Make `members` the next group, let others of the last one leave, and return the generation."""
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
        """Tell the group that a member is gone."""
        for member in self.group:
            if member.process.poll() is None:
                member.send(Abort(self.generation))

    def stop(self, save: bool = True) -> list[Left]:
        """Stop the whole group and wait for its end."""
        for member in self.group:
            member.send(Stop(save))
        left = [member.wait(Left) for member in self.group]
        self._all_ended()
        self.group = []
        return left

    def finish(self) -> list[Finished]:
        """Wait until the script has come to its end in every process."""
        finished = [member.wait(Finished) for member in self.group]
        self._all_ended()
        return finished

    def crash(self) -> Crashed:
        return self.group[0].wait(Crashed)

    @functools.cached_property
    def _store(self) -> TCPStore:
        """Load torch late: it takes seconds, in which the processes load it too."""
        from torch.distributed import TCPStore

        return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    @property
    def steps_made(self) -> int:
        """Return the most optimizer steps that any member has reported."""
        return max((steps_told(event) for member in self.members for event in member.events), default=0)

    def until(self, found: Callable[[], Any], what: str) -> Any:
        """Wait for something. Raises: Crash, Hang or Unmet if it will not come."""
        while True:
            here = [member for member in self.members if member not in self.killed]
            # Asked before looking, so that no event of a process that has ended is overlooked.
            gone = next((member for member in here if member.gone), None)
            if value := found():
                return value
            for member in here:
                if crashes := member.all(Crashed):
                    raise Crash(crashes[0], self.steps_made)
            if gone is not None:
                raise Unmet(f"process {self.members.index(gone)} ended with status {gone.process.poll()}, unasked")
            if time.perf_counter() - self.last_heard_s(here) > self.limit_s:
                raise Hang(f"no {what}; {self.whereabouts(here)}")
            self.pause()

    def last_heard_s(self, members: Sequence[Member]) -> float:
        """Return when any of these members was last seen alive, on `time.perf_counter`."""
        return max([self._began_s, *(member.heard_s for member in members)])

    def whereabouts(self, members: Sequence[Member]) -> str:
        """Return what silent members are doing, as far as can be seen."""
        return f"nobody has said anything for {self.limit_s:g} s"

    def pause(self) -> None:
        """Wait a moment between two looks."""
        time.sleep(LOOK_S)

    def _all_ended(self) -> None:
        for member in self.group:
            if member.exit_code() != 0:
                raise Unmet(f"a process ended with status {member.exit_code()}: {member.output()}")

    def _start(self, env: dict[str, str]) -> Member:
        ours, theirs = socket.socketpair()
        log = self.folder / f"process-{len(self.members)}.log"
        own = {name: value for name, value in os.environ.items() if name not in _OF_A_GROUP}
        environment: dict[str, str] = {
            **own,
            "OMP_NUM_THREADS": "1",
            MEMBER: str(len(self.members)),
            messages.TRAINING_JSON: self.training.model_dump_json(),
            messages.GPU_TYPE: "cpu",
            **self._env,
            **env,
            messages.CHANNEL_FD: str(theirs.fileno()),
        }
        process = self._launch(environment, theirs, log)
        theirs.close()
        member = self._member(process, Wire(ours.detach(), EVENTS, environment.get(messages.JOB_ID, "")), log)
        self.members.append(member)
        return member

    def _launch(self, environment: dict[str, str], channel: socket.socket, log: Path) -> Any:
        with log.open("wb") as output:
            return Program(
                [sys.executable, "-u", "-m", self._module, str(self.script), *self.args],
                env=environment,
                cwd=self._cwd,
                pass_fds=(channel.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _member(self, process: Any, wire: Wire, log: Path) -> Member:
        return Member(process, wire, log)


class Program(subprocess.Popen[bytes]):
    """Be a process in its own session, all of which ends when it is killed."""

    def kill(self) -> None:
        # Until a process is waited for, the number of its group cannot be anyone else's.
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def steps_told(event: object) -> int:
    """Return the optimizer steps that an event reports; 0 for other events."""
    if isinstance(event, Heartbeat | Joined | Broken):
        return event.steps
    return event.progress.steps if isinstance(event, Report) else 0


def gpu_environment(number: int) -> dict[str, str]:
    """Return variables that give the `number`-th process a GPU; processes share GPUs if there are too few.

    NCCL refuses a GPU to two processes of one host, so each claims to be on its own host.
    """
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [name for name in visible.split(",") if name] or [str(i) for i in range(torch.cuda.device_count())]
    if not names:
        return {}
    return {
        "CUDA_VISIBLE_DEVICES": names[number % len(names)],
        "NCCL_HOSTID": f"host-{number}",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_IB_DISABLE": "1",
    }
