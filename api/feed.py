"""Events as they happen, to any number of readers, of whom none delays another or the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from .scheduler import Scheduler

POLL_S = 0.2
PAGE = 500  # events that are read at a time
MOST_WAITING = 1000  # events that wait for one reader; one that is slower reads them from the store again
QUIET_S = 15.0  # after so long without an event a reader hears that the connection is alive

Event = dict[str, Any]


class Reader:
    """One reader of the feed."""

    def __init__(self, after: int) -> None:
        self.after = after  # the number of the last event that it was given
        self.waiting: asyncio.Queue[Event | None] = asyncio.Queue(MOST_WAITING)  # None only wakes it
        self.missed = True  # whether events are to be read from the store first

    def offer(self, event: Event) -> None:
        """Give it an event, unless too many wait."""
        try:
            self.waiting.put_nowait(event)
        except asyncio.QueueFull:
            self.missed = True

    def miss(self) -> None:
        """Have it read from the store, also where it waits for an event."""
        self.missed = True
        with suppress(asyncio.QueueFull):
            self.waiting.put_nowait(None)


class Feed:
    """Reads new events once for all readers. It reads nothing while there are none."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._readers: set[Reader] = set()
        self._task: asyncio.Task[None] | None = None

    @property
    def streams(self) -> int:
        """Return how many readers there are."""
        return len(self._readers)

    async def follow(self, after: int) -> AsyncIterator[Event | None]:
        """Yield the events after one with a number, as they come; None now and then where there are none."""
        reader = Reader(after)
        self._readers.add(reader)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll())
        try:
            while True:
                if reader.missed:
                    async for event in self._catch_up(reader):
                        yield event
                try:
                    offered: Event | None = await asyncio.wait_for(reader.waiting.get(), QUIET_S)
                except TimeoutError:
                    yield None
                    continue
                if offered is not None and offered["number"] > reader.after:
                    reader.after = offered["number"]
                    yield offered
        finally:
            self._readers.discard(reader)

    async def _catch_up(self, reader: Reader) -> AsyncIterator[Event]:
        """Yield what the reader missed, from the store."""
        reader.missed = False
        while found := await self._scheduler.call("events_after", reader.after, PAGE):
            for event in found:
                reader.after = event["number"]
                yield event

    async def _poll(self) -> None:
        last: int = await self._scheduler.call("last_event")
        for reader in self._readers:
            reader.miss()
        while self._readers:
            try:
                found: list[Event] = await self._scheduler.call("events_after", last, PAGE)
            except Exception:  # the scheduler restarts, or cannot read its store now
                found = []
            for event in found:
                last = event["number"]
                for reader in self._readers:
                    reader.offer(event)
            if len(found) < PAGE:
                await asyncio.sleep(POLL_S)
