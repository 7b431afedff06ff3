"""The processes of a sharded replica: one for each of its GPUs, which start, train and end together.

To the executor they look like one process. Commands go to all of them, and what all of them say is said once. A
replica that loses a process is lost: the others are ended.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..protocol.messages import (
    SHARD,
    SHARDS,
    Broken,
    Command,
    Crashed,
    Event,
    Finished,
    Join,
    Joined,
    Left,
    Ready,
)
from ..protocol.worker_events import Exited, Output, WorkerEvent
from .training_process import Launch, TrainingProcess

KEPT_CHARACTERS = 4000  # of the output of processes that are not the first, shown where they fail
_OF_ALL = Ready | Joined | Broken | Left | Finished


class ReplicaProcesses:
    """Run the processes of a replica, and be to the worker what one `TrainingProcess` is."""

    def __init__(self, launches: Sequence[Launch], emit: Callable[[Event | WorkerEvent], None]) -> None:
        self._emit = emit
        self._lock = threading.Lock()
        self._said = Said(len(launches))
        self._processes = [TrainingProcess(launch, self._hearer(i)) for i, launch in enumerate(launches)]

    def run(self) -> int:
        """Start all processes and wait until all have ended; return the exit code of the first that was lost."""
        threads = [threading.Thread(target=process.run, name="coadapt-shard") for process in self._processes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self._said.code

    def send(self, command: Command) -> None:
        """Hand a command to all processes, each of which has a rank of its own."""
        for shard, process in enumerate(self._processes):
            process.send(for_shard(command, shard, len(self._processes)))

    def kill(self) -> None:
        for process in self._processes:
            process.kill()

    def _hearer(self, shard: int) -> Callable[[Event | WorkerEvent], None]:
        def hear(event: Event | WorkerEvent) -> None:
            with self._lock:  # what one process says first is passed on first
                for told in self._said.by(shard, event):
                    self._emit(told)
                lost = self._said.is_lost
            if lost:
                self.kill()

        return hear


@dataclass
class Said:
    """What the processes of a replica have said, and what that is as one."""

    processes: int
    is_lost: bool = False  # one of them has ended before the others may
    code: int = 0
    _told: dict[object, set[int]] = field(default_factory=dict)
    _of_first: dict[object, Event] = field(default_factory=dict)
    _output: dict[int, str] = field(default_factory=dict)
    _exits: dict[int, int] = field(default_factory=dict)
    _left: set[int] = field(default_factory=set)
    _followed: set[int] = field(default_factory=set)  # ended because another was lost

    def by(self, shard: int, event: Event | WorkerEvent) -> list[Event | WorkerEvent]:
        """Return what is said when a process says `event`: its own words, or those of all, or nothing yet."""
        match event:
            case Exited():
                return self._exited(shard, event)
            case Output() if shard:
                self._output[shard] = (self._output.get(shard, "") + event.text)[-KEPT_CHARACTERS:]
                return []
            case Crashed(peer_lost=True):
                self._followed.add(shard)
                return []  # the one that is lost tells why
            case Crashed():
                return self._crashed(shard, event)
            case Ready() | Joined() | Broken() | Left() | Finished():
                return self._said_by_all(shard, event)
        return [event] if shard == 0 else []

    def _said_by_all(self, shard: int, event: _OF_ALL) -> list[Event | WorkerEvent]:
        if isinstance(event, Left | Finished):
            self._left.add(shard)
        key = type(event), getattr(event, "generation", None)
        told = self._told.setdefault(key, set())
        told.add(shard)
        if shard == 0:
            self._of_first[key] = event
        if len(told) < self.processes:
            return []
        del self._told[key]
        return [self._of_first.pop(key)]

    def _crashed(self, shard: int, event: Crashed) -> list[Event | WorkerEvent]:
        if self.is_lost:
            return []  # what follows from the first loss
        self.is_lost = True
        output = self._output.pop(shard, "")
        return [Output(output), event] if output else [event]

    def _exited(self, shard: int, event: Exited) -> list[Event | WorkerEvent]:
        self._exits[shard] = event.code
        if not (self.is_lost or shard in self._left or shard in self._followed):
            self.code, self.is_lost = event.code, True
        if len(self._exits) < self.processes:
            return []
        self.code = self.code or next((code for code in self._exits.values() if code), 0)
        return [Exited(self.code)]


def for_shard(command: Command, shard: int, processes: int) -> Command:
    """Return what a process of a replica is told where the replica is told `command`. Ranks count shards first."""
    if not isinstance(command, Join):
        return command
    return replace(
        command,
        rank=command.rank * processes + shard,
        world_size=command.world_size * processes,
        local_rank=command.local_rank * processes + shard,
        local_world_size=command.local_world_size * processes,
    )


def shard_environment(shard: int, processes: int, port: int) -> dict[str, str]:
    """Return what torchrun would tell a process of a replica, whose world is the replica until it has joined.

    All processes of a replica are on one node. The first of them serves their store at `port`. Each sees one GPU,
    so LOCAL_RANK, which scripts use as a device index, is 0.
    """
    return {
        SHARDS: str(processes),
        SHARD: str(shard),
        "RANK": str(shard),
        "WORLD_SIZE": str(processes),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def free_port() -> int:
    """Return a port of this machine that nobody listens at now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
