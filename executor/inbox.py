"""Requests of other threads, for the one thread that owns an executor's state."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Effect = TypeVar("Effect")
IDLE_S = 5.0  # the owner looks up at least so often


class Inbox(Generic[Effect]):
    """Hold requests in order. Each is called with the time, and returns effects to carry out."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Callable[[float], list[Effect]]] = queue.SimpleQueue()

    def put(self, request: Callable[[float], list[Effect]]) -> None:
        self._waiting.put(request)

    def next(self, due_s: float, otherwise: Callable[[float], list[Effect]]) -> Callable[[float], list[Effect]]:
        """Return the next request; `otherwise` where none came until `due_s` of the monotonic clock."""
        wait_s = min(max(due_s - time.monotonic(), 0.0), IDLE_S)
        try:
            return self._waiting.get(timeout=wait_s) if wait_s > 0 else self._waiting.get_nowait()
        except queue.Empty:
            return otherwise
