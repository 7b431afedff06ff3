"""One node of a command whose worker is this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from coadapt.executor.programs.command_processes import CommandLaunch, CommandProcesses
from coadapt.executor.protocol.command_events import Ended, Said
from coadapt.executor.protocol.worker_events import Exited

Event = TypeVar("Event")
WAIT_S = 240.0  # for an event, on a machine that is busy


class CommandNode:
    """Runs the processes of a launch on this machine, and keeps what they tell."""

    def __init__(self, launch: CommandLaunch) -> None:
        self.events: list[object] = []
        self._more = threading.Condition()
        self.processes = CommandProcesses(launch, self._emit)
        self._thread = threading.Thread(target=self.processes.run, args=("127.0.0.1",), daemon=True)
        self._thread.start()

    def _emit(self, event: object) -> None:
        with self._more:
            self.events.append(event)
            self._more.notify_all()

    def until(self, seen: Callable[[object], bool]) -> object:
        """Wait for an event and return it."""
        with self._more:
            assert self._more.wait_for(lambda: any(map(seen, self.events)), WAIT_S), self.events[-5:]
            return next(event for event in self.events if seen(event))

    def ended(self) -> list[Ended]:
        """Wait until all processes are gone; return how each ended, by rank."""
        self._thread.join(WAIT_S)
        assert self.events[-1] == Exited(0)
        return sorted(self.of(Ended), key=lambda event: event.rank)

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    def output(self, rank: int = 0) -> str:
        return "".join(event.text for event in self.of(Said) if event.rank == rank)
