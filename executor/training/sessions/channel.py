"""The training process's end of its socket pair: commands come in, events go out (`protocol/wire.py`)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TypeVar

from ...protocol.messages import (
    JOB_ID,
    Abort,
    Beside,
    Command,
    Event,
    Join,
    Keep,
    Leave,
    Provide,
    Save,
    SetBatch,
    Stop,
)
from ...protocol.wire import COMMANDS, MessageError, Wire

Membership = Join | Leave
_Single = TypeVar("_Single", SetBatch, Save, Stop, Provide, Keep)

# The exit status of a process whose worker went away, so that nobody is left to tell.
ORPHANED = 75


class Channel:
    """Keeps commands until the training reaches a control point; only `Abort` and `Beside` act at once.

    A thread of its own reads the socket. The thread that trains calls everything else.
    """

    def __init__(self, fd: int, on_orphaned: Callable[[], None] = lambda: os._exit(ORPHANED)) -> None:
        os.set_inheritable(fd, False)
        self._wire = Wire(fd, COMMANDS, os.environ.get(JOB_ID, ""))
        self._on_orphaned = on_orphaned
        self._changed = threading.Condition()
        self._membership: Membership | None = None
        self._single: dict[type, SetBatch | Save | Stop | Provide | Keep] = {}
        self._aborted = -1  # highest generation that was aborted
        self.on_abort: Callable[[int], None] = lambda generation: None
        self._on_beside: Callable[[Beside], None] = lambda beside: None
        self._beside: Beside | None = None  # the newest
        threading.Thread(target=self._listen, name="coadapt-commands", daemon=True).start()

    def send(self, event: Event) -> None:
        try:
            self._wire.send(event)
        except OSError:
            self._on_orphaned()

    @property
    def waiting(self) -> bool:
        """Whether any command waits. It is cheap enough for every step."""
        return bool(self._single) or self._membership is not None

    def membership(self, after: int) -> Membership | None:
        """Return the newest `Join` or `Leave` of a generation later than `after`; older ones are dropped."""
        with self._changed:
            if self._membership is not None and self._membership.generation <= after:
                self._membership = None
            return self._membership

    def take(self, kind: type[_Single]) -> _Single | None:
        """Return the newest command of a kind, which then no longer waits."""
        with self._changed:
            return self._single.pop(kind, None)  # type: ignore[return-value]

    def discard(self, *kinds: type) -> None:
        with self._changed:
            for kind in kinds:
                self._single.pop(kind, None)

    def aborted(self, generation: int) -> bool:
        return generation <= self._aborted

    def wait_for_membership(self, after: int) -> Membership | Stop:
        """Block until there is a group to join or leave, or else a `Stop`."""
        with self._changed:
            while True:
                command = self.membership(after)
                if command is not None:
                    return command
                stop = self._single.pop(Stop, None)
                if isinstance(stop, Stop):
                    return stop
                self._changed.wait()

    def hear_beside(self, act: Callable[[Beside], None]) -> None:
        """Call `act` with each `Beside`, and with the last one that has come already."""
        with self._changed:
            self._on_beside = act
            if self._beside is not None:
                act(self._beside)

    def _listen(self) -> None:
        while True:
            try:
                command = self._wire.receive()
            except (EOFError, OSError, MessageError):
                self._on_orphaned()
                return
            self._receive(command)

    def _receive(self, command: Command) -> None:
        with self._changed:
            if isinstance(command, Abort):
                self._aborted = max(self._aborted, command.generation)
            elif isinstance(command, Beside):
                self._beside = command
                self._on_beside(command)
            elif isinstance(command, Join | Leave):
                if self._membership is None or command.generation >= self._membership.generation:
                    self._membership = command
            else:
                self._single[type(command)] = command
            self._changed.notify_all()
        if isinstance(command, Abort):
            self.on_abort(command.generation)
