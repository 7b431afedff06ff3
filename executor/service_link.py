"""An executor's events on their way to the scheduler service, however often that is restarted."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Any

import ray
from ray.exceptions import RayError

from .protocol.envelope import packed
from .protocol.job_events import NOTHING_SENT, ExecutorEvent, Sent

log = logging.getLogger(__name__)

ANSWER_S = 30.0  # the service's answer to an event
RETRY_S = 0.5  # between tries to reach the service, which may be down for long


class ServiceLink:
    """Deliver events in order from a thread of its own. Without a service's name they go nowhere.

    Args:
        life: of the job; the service passes over events of its other lives.
    """

    def __init__(self, job_id: str, life: int, service_name: str, namespace: str) -> None:
        self._job_id, self._life, self._name, self._namespace = job_id, life, service_name, namespace
        self._changed = threading.Condition()
        self._outbox: deque[ExecutorEvent] = deque()  # the first is under way
        threading.Thread(target=self._run, name="events", daemon=True).start()

    @property
    def exists(self) -> bool:
        return bool(self._name)

    def put(self, event: ExecutorEvent) -> None:
        if self.exists:
            with self._changed:
                self._outbox.append(event)
                self._changed.notify_all()

    def flush(self, until_s: float) -> bool:
        """Wait until all is told, until a moment of the monotonic clock; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._outbox, until_s - time.monotonic())

    def told(self, event: ExecutorEvent) -> Sent:
        """Tell the service until it has taken the event, and return what it had sent by then."""
        message = packed(event)
        while True:
            try:
                service = ray.get_actor(self._name, namespace=self._namespace)
                sent: Any = ray.get(service.on_event.remote(self._job_id, message, self._life), timeout=ANSWER_S)
                return sent if isinstance(sent, Sent) else NOTHING_SENT
            except (ValueError, RayError) as error:
                log.info("job %s: the scheduler service did not take an event yet: %s", self._job_id, error)
            time.sleep(RETRY_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._outbox))
                event = self._outbox[0]
            self.told(event)
            with self._changed:
                self._outbox.popleft()
                self._changed.notify_all()
