"""Work in order per key, on few threads: work that waits or fails holds back nothing but its own key's."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from itertools import count

log = logging.getLogger(__name__)

Work = Callable[[], float | None]
THREADS = 4


class Lanes:
    """Do the work of each key in the order in which it was asked for. Keys do not wait for each other.

    Work returns None when it is done, else the seconds after which it is called again. It holds no thread
    meanwhile, and later work of its key waits for it.
    """

    def __init__(self, name: str, threads: int = THREADS) -> None:
        self._changed = threading.Condition()
        self._queues: dict[Hashable, deque[Work]] = {}  # a key without work has none
        self._ready: deque[Hashable] = deque()
        self._later: list[tuple[float, int, Hashable]] = []  # by time
        self._numbers = count()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-{at}", daemon=True) for at in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, key: Hashable, work: Work) -> None:
        """Add work behind all that the key has."""
        with self._changed:
            queue = self._queues.setdefault(key, deque())
            queue.append(work)
            if len(queue) == 1:
                self._ready.append(key)
                self._changed.notify()

    def drain(self, timeout_s: float) -> bool:
        """Wait until all that was asked for is done; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queues, timeout_s)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Do what is ready, drop what waits for another try, and end the threads."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        until_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(until_s - time.monotonic(), 0.0))

    def _run(self) -> None:
        while (key := self._next()) is not None:
            try:
                again_s = self._queues[key][0]()
            except Exception:
                log.exception("work for %s", key)
                again_s = None
            self._did(key, again_s)

    def _next(self) -> Hashable | None:
        """Return a key whose first work is due, as soon as there is one; None at the end."""
        with self._changed:
            while True:
                now = time.monotonic()
                while self._later and self._later[0][0] <= now:
                    self._ready.append(heapq.heappop(self._later)[2])
                if self._ready:
                    if len(self._ready) > 1:
                        self._changed.notify()
                    return self._ready.popleft()
                if self._stopping:
                    return None
                self._changed.wait(self._later[0][0] - now if self._later else None)

    def _did(self, key: Hashable, again_s: float | None) -> None:
        with self._changed:
            queue = self._queues[key]
            if again_s is not None:
                heapq.heappush(self._later, (time.monotonic() + again_s, next(self._numbers), key))
                self._changed.notify()  # it may be due before what the others wait for
                return
            queue.popleft()
            if queue:
                self._ready.append(key)
                self._changed.notify()
            else:
                del self._queues[key]
                if not self._queues:
                    self._changed.notify_all()
