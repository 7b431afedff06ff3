"""Hands lists of indices to a `DataLoader` whose number of workers may change in the midst of a loop.

The workers that were there finish what they were given, while others are started for what follows. So no batch is
read twice and none is left out, and their order is that of the lists.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from torch.utils.data import DataLoader


class ChangingLoader:
    """The batches of lists of indices, read by as many workers as are wanted at the moment.

    Args:
        make: returns a loader that takes its lists from an iterable, with so many workers.
        workers: at first. A loader without any reads in this process, and keeps to that.
    """

    def __init__(self, make: Callable[[Iterable[Any], int], DataLoader[Any]], workers: int) -> None:
        self._make, self.workers = make, workers
        self._feed = _Feed()
        self._loader: DataLoader[Any] | None = None
        self._reading: object | None = None  # the loop that is being read
        self._following: deque[tuple[_Feed, Iterator[Any]]] = deque()  # of that loop, as the number was changed

    def read(self, lists: Iterator[Any]) -> Iterator[Any]:
        """Yield the batch of each list, in order. Reading begins when the first one is asked for."""
        self._reading = this = object()
        self._following.clear()
        feed, batches = self._begin(lists)
        try:
            while True:
                while feed.taken < feed.given or not feed.stopped:
                    try:
                        batch = next(batches)
                    except StopIteration:
                        return
                    feed.taken += 1
                    yield batch
                _end(batches)
                feed, batches = self._following.popleft()
        finally:
            if self._reading is this:
                self._reading = None

    def change(self, workers: int) -> bool:
        """Have so many workers from the first list on that none was given yet; they begin at once.

        Return whether that is another number. A loader that reads in this process keeps to that.
        """
        if workers == self.workers or workers < 1 or not self.workers:
            return False
        self.workers, self._loader = workers, None
        if self._reading is not None:
            self._feed.stopped = True
            self._following.append(self._begin(self._feed.lists))
        return True

    def _begin(self, lists: Iterator[Any]) -> tuple[_Feed, Iterator[Any]]:
        if self._loader is None or self._feed.stopped:
            self._feed = _Feed()
            self._loader = self._make(self._feed, self.workers)
        self._feed.begin(lists)
        return self._feed, iter(self._loader)


class _Feed:
    """The lists that one loader is given. It ends when it is stopped, and the rest is for the next one."""

    def __init__(self) -> None:
        self.lists: Iterator[Any] = iter(())
        self.stopped = False
        self.given = self.taken = 0

    def begin(self, lists: Iterator[Any]) -> None:
        self.lists, self.given, self.taken = lists, 0, 0

    def __iter__(self) -> Iterator[Any]:
        while not self.stopped:
            try:
                one = next(self.lists)
            except StopIteration:
                return
            self.given += 1
            yield one


def _end(batches: Iterator[Any]) -> None:
    """Let the workers of an iterator go that has nothing more to do, without waiting for them."""
    shut_down = getattr(batches, "_shutdown_workers", None)
    if shut_down is not None:

        def act() -> None:
            with suppress(Exception):  # they are gone then
                shut_down()

        threading.Thread(target=act, name="coadapt-loader-end", daemon=True).start()
