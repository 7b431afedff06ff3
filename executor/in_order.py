"""Calls of an actor in the order in which they were made; Ray may deliver concurrent ones in any."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class InOrder(Generic[Item]):
    """Pass numbered items on by number; what comes early waits for those before it."""

    def __init__(self, take: Callable[[Item], None]) -> None:
        self._take = take
        self._lock = threading.Lock()
        self._early: dict[int, Item] = {}
        self._next = 0

    def put(self, index: int, item: Item) -> None:
        with self._lock:
            self._early[index] = item
            while self._next in self._early:
                self._take(self._early.pop(self._next))
                self._next += 1
