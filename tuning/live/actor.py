"""The actor of one study. It holds no GPU; killed, it starts again and goes on from its sqlite."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...client.client import Client
from ...client.http_api import HttpApi
from ...core.errors import JobStateError, KeyReusedError, StateError
from ...core.job_limits import JobLimitError
from .driver import Driver
from .store import StudyStore

log = logging.getLogger(__name__)

NAME = "study:"  # and its id, in the scheduler's namespace
TICK_S = 1.0
AWAY_S = 10.0  # until it looks again where nobody answers
NO = (JobStateError, KeyReusedError, JobLimitError, KeyError, ValueError)  # the scheduler's answers that mean no


class StudyActor:
    """Drives a study until it is over.

    Args:
        folder: of its sqlite, on this machine's disk.
        url: of the scheduler's API. fingerprint: of its certificate, if it speaks TLS.
    """

    def __init__(self, folder: str, url: str, fingerprint: str | None = None, tick_s: float = TICK_S) -> None:
        self._store = StudyStore(Path(folder))
        self._client = Client(HttpApi(url, self._store.token, fingerprint=fingerprint))
        self._driver = Driver(self._store, self._client, NO)
        self._tick_s, self._soon = tick_s, threading.Event()
        threading.Thread(target=self._run, name="study", daemon=True).start()

    def look(self) -> bool:
        """Look at once, as its user has cancelled it."""
        self._soon.set()
        return True

    def _run(self) -> None:
        while True:
            wait_s = self._tick_s
            try:
                if self._driver.tick():
                    self._leave()
                    return
            except StateError as error:
                log.info("study %s: %s", self._driver.asked.id, error)
                wait_s = AWAY_S
            except Exception:
                log.exception("study %s", self._driver.asked.id)
                wait_s = AWAY_S
            self._soon.wait(wait_s)
            self._soon.clear()

    def _leave(self) -> None:
        """Give the token back, and end the actor for good."""
        import ray

        token = self._store.token.split("_")
        with suppress(Exception):  # it ends with the user, too
            self._client.revoke_token(token[1])
        me: Any = ray.get_runtime_context().current_actor
        ray.kill(me, no_restart=True)
