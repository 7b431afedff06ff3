"""Hands lists of indices to a `DataLoader` whose number of workers may change in the midst of a loop.

The workers that were there go on until others have been started, and finish what they were given. So no batch is
read twice and none is left out, and their order is that of the lists.

Starting a process takes this one some milliseconds, and a GPU might wait for two dozen of them. So they are
started a few at a time, between two batches, always by the thread that trains: another one might fork while this
one holds a lock that the new process then waits for.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from torch.utils.data import DataLoader

START_S = 0.02  # that starting workers may take between two batches, or a part of the time between them
PART = 0.1
LOOK_S = 0.005

Make = Callable[[Iterable[Any], int, Any], DataLoader[Any]]


class ChangingLoader:
    """The batches of lists of indices, read by as many workers as are wanted at the moment.

    Args:
        make: returns a loader that takes its lists from an iterable, with so many workers. The last argument is
            where its processes come from; None: as the script says.
        workers: at first. A loader without any reads in this process, and keeps to that.
        context: as the script's loader has it; None: the usual one.
    """

    def __init__(self, make: Make, workers: int, context: Any = None) -> None:
        self._make, self.workers, self._context = make, workers, context
        self._pulling = threading.Lock()  # of lists, which only one may be taking
        self._feed = _Feed(self._pulling)
        self._loader: DataLoader[Any] | None = None
        self._reading: object | None = None  # the loop that is being read
        self._following: deque[_Start] = deque()  # of that loop, as the number was changed

    def read(self, lists: Iterator[Any]) -> Iterator[Any]:
        """Yield the batch of each list, in order. Reading begins when the first one is asked for."""
        self._leave_following()
        self._reading = this = object()
        feed, batches = self._begin(lists)
        asked_s = time.monotonic()
        try:
            while True:
                while feed.taken < feed.given or not feed.stopped:
                    now_s = time.monotonic()
                    self._start_some(max(START_S, PART * (now_s - asked_s)))
                    asked_s = now_s
                    try:
                        batch = next(batches)
                    except StopIteration:
                        if not feed.stopped:
                            return
                        break
                    feed.taken += 1
                    yield batch
                _end(batches)
                feed, batches = self._following.popleft().finished()
        finally:
            if self._reading is this:
                self._reading = None

    def change(self, workers: int) -> bool:
        """Have so many workers as soon as they are started; return whether that is another number.

        A loader that reads in this process keeps to that.
        """
        if workers == self.workers or workers < 1 or not self.workers:
            return False
        self.workers, self._loader = workers, None
        if self._reading is not None:
            before, self._feed = self._feed, _Feed(self._pulling)
            self._feed.begin(before.lists, before)
            waiting = _Waiting()
            self._loader = self._make(self._feed, workers, _slow(self._context, waiting))
            self._following.append(_Start(self._loader, self._feed, waiting))
        return True

    def _begin(self, lists: Iterator[Any]) -> tuple[_Feed, Iterator[Any]]:
        if self._loader is None or self._feed.stopped or self._feed.slow:
            self._feed = _Feed(self._pulling)
            self._loader = self._make(self._feed, self.workers, None)
        self._feed.begin(lists)
        return self._feed, iter(self._loader)

    def _start_some(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        for start in self._following:
            while start.go_on():
                if time.monotonic() >= until_s:
                    return

    def _leave_following(self) -> None:
        """End what was started for a loop that is over."""
        while self._following:
            _, batches = self._following.popleft().finished()
            _end(batches)


class _Feed:
    """The lists that one loader is given. It ends when the next one begins, which is given the rest."""

    def __init__(self, pulling: threading.Lock) -> None:
        self._pulling = pulling
        self.lists: Iterator[Any] = iter(())
        self._before: _Feed | None = None
        self.slow = False  # whether its workers were started a few at a time
        self.stopped = False
        self.given = self.taken = 0

    def begin(self, lists: Iterator[Any], before: _Feed | None = None) -> None:
        self.lists, self._before, self.slow, self.given, self.taken = lists, before, before is not None, 0, 0

    def __iter__(self) -> Iterator[Any]:
        while True:
            with self._pulling:
                if self._before is not None:  # the workers of this one are there now
                    self._before.stop()
                if self.stopped:
                    return
                try:
                    one = next(self.lists)
                except StopIteration:
                    return
                self.given += 1
            yield one

    def stop(self) -> None:
        """Give nothing more; the lock is held."""
        self.stopped = True
        if self._before is not None:
            self._before.stop()


class _Waiting:
    """Processes that wait for the thread that trains to start them."""

    def __init__(self) -> None:
        self._starts: deque[tuple[Callable[[], None], threading.Event]] = deque()
        self._changed = threading.Condition()

    def wait(self, start: Callable[[], None]) -> None:
        """Return when `start` was called by that thread."""
        started = threading.Event()
        with self._changed:
            self._starts.append((start, started))
            self._changed.notify_all()
        started.wait()

    def start_one(self) -> bool:
        """Start a process that waits for it; return whether there was one."""
        with self._changed:
            if not self._starts:
                return False
            start, started = self._starts.popleft()
        try:
            start()
        finally:
            started.set()
        return True

    def start_until(self, done: threading.Event) -> None:
        """Start all that come until something is done."""
        while not done.is_set():
            if not self.start_one():
                with self._changed:
                    self._changed.wait_for(lambda: bool(self._starts) or done.is_set(), LOOK_S)


def _slow(context: Any, waiting: _Waiting) -> Any:
    """Return a context of `multiprocessing` like another one, whose processes wait to be started."""
    method = (multiprocessing if context is None else context).get_start_method()
    kind: Any = type(multiprocessing.get_context(method))

    class Slow(kind):
        def Process(self, *args: Any, **kwargs: Any) -> Any:
            process = kind.Process(*args, **kwargs)

            def begin() -> None:
                process.__dict__.pop("start")  # a process that is spawned is pickled
                waiting.wait(process.start)

            process.start = begin
            return process

    return Slow()


class _Start:
    """A loader whose workers are being started."""

    def __init__(self, loader: DataLoader[Any], feed: _Feed, waiting: _Waiting) -> None:
        self._loader, self._feed, self._waiting = loader, feed, waiting
        self._batches: Iterator[Any] | None = None
        self._error: BaseException | None = None
        self._done = threading.Event()
        threading.Thread(target=self._begin, name="coadapt-loader-start", daemon=True).start()

    def go_on(self) -> bool:
        """Start one more worker; return whether there was one to start."""
        return self._waiting.start_one()

    def finished(self) -> tuple[_Feed, Iterator[Any]]:
        """Start the rest, and return the feed and its batches. Raises: what beginning to read has raised."""
        self._waiting.start_until(self._done)
        if self._error is not None:
            raise self._error
        assert self._batches is not None
        return self._feed, self._batches

    def _begin(self) -> None:
        try:
            self._batches = iter(self._loader)
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()


def _end(batches: Iterator[Any]) -> None:
    """Let the workers of an iterator go that has nothing more to do, without waiting for them."""
    shut_down = getattr(batches, "_shutdown_workers", None)
    if shut_down is not None:

        def act() -> None:
            with suppress(Exception):  # they are gone then
                shut_down()

        threading.Thread(target=act, name="coadapt-loader-end", daemon=True).start()
