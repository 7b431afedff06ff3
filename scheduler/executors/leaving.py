"""How an executor that is not needed any more is ended: it tells all it knows first."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import ray

from ...core.service_names import NAMESPACE

log = logging.getLogger(__name__)

TELL_S = 15.0  # an executor that has not told the rest by then is ended all the same
GONE_S = 15.0  # its name is free again within this time
LOOK_S, LONGEST_LOOK_S = 0.02, 0.5
TRIES = 3


class Leaving:
    """Work of a lane that ends an executor; what follows in the lane finds its name free.

    Args:
        find: returns the handle of an actor by name; None: there is none.
        kill: ends the actor for good.
    """

    def __init__(self, name: str, find: Callable[[str], Any], kill: Callable[[], None]) -> None:
        self._name, self._find, self._kill = name, find, kill
        self._told: Future[Any] | None = None
        self._until_s = 0.0
        self._killed = False
        self._errors = 0
        self._look_s = LOOK_S

    def __call__(self) -> float | None:
        """Do the next step. Return the seconds until the one after it; None when the executor is gone."""
        try:
            gone = self._step()
        except Exception as error:  # Ray's control plane may be away for a moment
            self._errors += 1
            if self._errors == TRIES:
                log.error("actor %s could not be ended: %s", self._name, error)
                return None
            return 2.0 ** (self._errors - 1)
        self._look_s = min(2 * self._look_s, LONGEST_LOOK_S)
        return None if gone else self._look_s

    def _step(self) -> bool:
        """Ask, wait for the answer, kill, wait until the name is free; return whether it is."""
        now = time.monotonic()
        if self._told is None:
            if (handle := self._find(self._name)) is None:
                return True
            self._told, self._until_s = handle.leave.remote().future(), now + TELL_S
        if not self._killed:
            if not self._told.done() and now < self._until_s:
                return False
            self._kill()
            self._killed, self._until_s, self._look_s = True, now + GONE_S, LOOK_S
        try:
            ray.get_actor(self._name, namespace=NAMESPACE)
        except ValueError:
            return True
        return now >= self._until_s
