"""The executor's end of a training process's channel."""

from __future__ import annotations

import os
import select
import socket
from typing import Any, TypeVar

from coadapt.executor.protocol.messages import JOB_ID, Abort, Command
from coadapt.executor.protocol.wire import EVENTS, Wire
from coadapt.executor.training.sessions.channel import Channel

EventType = TypeVar("EventType")
WAIT_S = 30.0

_kept: list[Executor] = []  # a process whose executor goes away ends at once


class Executor:
    """Sends commands to `channel`, and hears its events. `options` are those of the channel."""

    def __init__(self, **options: Any) -> None:
        ours, theirs = socket.socketpair()
        self.channel = Channel(theirs.detach(), **options)
        self.connection = Wire(ours.detach(), EVENTS, os.environ.get(JOB_ID, ""))
        self.events: list[Any] = []
        _kept.append(self)

    def send(self, *commands: Command) -> Channel:
        """Send commands, and wait until the channel has acted on each of them."""
        arrived = self.channel._changed
        # An abort of no generation changes nothing; once it is read, whatever was sent before it has been done.
        for command in (*commands, Abort(-1)):
            with arrived:
                self.connection.send(command)
                assert arrived.wait(WAIT_S), f"{command} was not read within {WAIT_S:g} s"
        return self.channel

    def heard(self, kind: type[EventType]) -> list[EventType]:
        """Return all events of a kind that the process has sent."""
        while select.select([self.connection], [], [], 0)[0]:
            self.events.append(self.connection.receive())
        return [event for event in self.events if isinstance(event, kind)]
