"""Answers of the scheduler that all who may read the same share for a moment."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

SHARED_S = 1.0  # so old an answer may be while events say that nothing has happened
MOST_KEPT = 200


class Shared:
    """Answers by their whole question, whose arguments say what may be told. Nobody changes what it returns.

    Args:
        ask: asks the scheduler.
        followed: whether new events are read now, so that `forget` is called soon after each change.
    """

    def __init__(self, ask: Callable[..., Awaitable[Any]], followed: Callable[[], bool]) -> None:
        self._ask, self._followed = ask, followed
        self._known: OrderedDict[str, tuple[float, asyncio.Task[Any]]] = OrderedDict()

    async def ask(self, method: str, *args: Any, keep_s: float | None = None) -> Any:
        """Return what the scheduler answers to a question, now or a moment ago.

        Args:
            keep_s: so long an answer is good, whatever happens; by default only until something happens.
        """
        key = json.dumps([method, keep_s, args], default=repr)  # a reader says all of itself
        made_s, task = self._known.get(key, (0.0, None))
        if task is None or not self._is_good(made_s, task, keep_s):
            task = asyncio.create_task(self._asked(method, args))
            self._known[key] = time.monotonic(), task
            while len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
        return await asyncio.shield(task)  # who goes away meanwhile takes the answer from nobody

    def forget(self) -> None:
        """Ask anew, as something has happened."""
        for key in [key for key in self._known if json.loads(key)[1] is None]:
            del self._known[key]

    async def _asked(self, method: str, args: tuple[Any, ...]) -> Any:
        return await self._ask(method, *args)

    def _is_good(self, made_s: float, task: asyncio.Task[Any], keep_s: float | None) -> bool:
        if not task.done():
            return task.get_loop() is asyncio.get_running_loop()
        if task.cancelled() or task.exception() is not None:
            return False
        age_s = time.monotonic() - made_s
        return age_s < keep_s if keep_s is not None else age_s < SHARED_S and self._followed()
