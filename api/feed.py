"""Events as they happen, to any number of readers, of whom none delays another or the scheduler."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from .scheduler import Scheduler
from .server_sent import sent

POLL_S = 0.2
PAGE = 500  # events that are read at a time
MOST_WAITING = 1000  # events that wait for one reader; one that is slower reads them from the store again
QUIET_S = 15.0  # after so long without an event a reader hears that the connection is alive

Event = dict[str, Any]


class Reader:
    """One reader of the feed."""

    def __init__(self, after: int) -> None:
        self.after = after  # the number of the last event that it was given
        self._waiting: deque[Event] = deque()
        self._woken = asyncio.Event()
        self.missed = True  # whether events are to be read from the store first

    def offer(self, event: Event) -> None:
        """Give it an event, unless too many wait."""
        if len(self._waiting) >= MOST_WAITING:
            self.missed = True
        else:
            self._waiting.append(event)
        self._woken.set()

    def miss(self) -> None:
        """Have it read from the store, also where it waits for an event."""
        self.missed = True
        self._woken.set()

    async def take(self) -> list[Event]:
        """Return what waits for it, as soon as something does; nothing after a while, or where it missed some."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), QUIET_S)
        self._woken.clear()
        found = [event for event in self._waiting if event["number"] > self.after]
        self._waiting.clear()
        if found:
            self.after = found[-1]["number"]
        return found


class Feed:
    """Reads new events once for all readers, and nothing while there are none. `told`: called before new ones."""

    def __init__(self, scheduler: Scheduler, told: Callable[[], None] = lambda: None) -> None:
        self._scheduler, self._told = scheduler, told
        self._readers: set[Reader] = set()
        self._task: asyncio.Task[None] | None = None
        self._lines: OrderedDict[tuple[int, bool], str] = OrderedDict()

    @property
    def streams(self) -> int:
        """Return how many readers there are."""
        return len(self._readers)

    async def follow(self, after: int) -> AsyncIterator[list[Event]]:
        """Yield the events after one with a number, as they come; none now and then where there are none."""
        reader = Reader(after)
        self._readers.add(reader)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll())
        try:
            while True:
                if reader.missed:
                    async for some in self._catch_up(reader):
                        yield some
                found = await reader.take()
                if found or not reader.missed:
                    yield found
        finally:
            self._readers.discard(reader)

    def line(self, event: Event, *, shared: bool = False) -> str:
        """Return an event as it is sent. It is written once for all readers.

        shared: to a user, who does not read all that an event of the cluster tells.
        """
        number: int = event["number"]
        if (number, shared) not in self._lines:
            told = {name: value for name, value in event.items() if name != "shared_text"}
            told["text"] = event.get("shared_text", event["text"]) if shared else event["text"]
            self._lines[number, shared] = sent(event["kind"], told, number)
            while len(self._lines) > MOST_WAITING:
                self._lines.popitem(last=False)
        return self._lines[number, shared]

    async def _catch_up(self, reader: Reader) -> AsyncIterator[list[Event]]:
        """Yield what the reader missed, from the store."""
        reader.missed, told_s = False, time.monotonic()
        while True:
            try:
                found: list[Event] = await self._scheduler.call("events_after", reader.after, PAGE)
            except Exception:  # the scheduler restarts, or cannot read its store now
                if time.monotonic() - told_s > QUIET_S:
                    told_s = time.monotonic()
                    yield []
                await asyncio.sleep(POLL_S)
                continue
            if not found:
                return
            reader.after = found[-1]["number"]
            yield found

    async def _poll(self) -> None:
        last: int | None = None
        while self._readers:
            try:
                if last is None:
                    last = await self._scheduler.call("last_event")
                    for reader in self._readers:  # what came before is read from the store
                        reader.miss()
                found: list[Event] = await self._scheduler.call("events_after", last, PAGE)
            except Exception:  # as above
                found = []
            if found:
                self._told()
            for event in found:
                last = event["number"]
                for reader in self._readers:
                    reader.offer(event)
            if len(found) < PAGE:
                await asyncio.sleep(POLL_S)
