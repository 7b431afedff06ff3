"""Threads of a test: they do what they were given when they are told to."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class HeldWork(Executor):
    """Keeps what it is given until it is told to go on."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        self.waiting.append((work, args))
        return Future()

    def go_on(self) -> None:
        """Do all of it, in order. What raises ends it, and is not done again."""
        while self.waiting:
            work, args = self.waiting.pop(0)
            work(*args)
