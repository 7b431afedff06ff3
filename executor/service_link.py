"""An executor's events on their way to the scheduler service, however often that is restarted."""

from __future__ import annotations

import logging
import queue
import threading
import time
from typing import Any

import ray
from ray.exceptions import RayError

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
        self._outbox: queue.SimpleQueue[ExecutorEvent] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="events", daemon=True).start()

    @property
    def exists(self) -> bool:
        return bool(self._name)

    def put(self, event: ExecutorEvent) -> None:
        self._outbox.put(event)

    def told(self, event: ExecutorEvent) -> Sent:
        """Tell the service until it has taken the event, and return what it had sent by then."""
        while True:
            try:
                service = ray.get_actor(self._name, namespace=self._namespace)
                sent: Any = ray.get(service.on_event.remote(self._job_id, event, self._life), timeout=ANSWER_S)
                return sent if isinstance(sent, Sent) else NOTHING_SENT
            except (ValueError, RayError) as error:
                log.info("job %s: the scheduler service did not take an event yet: %s", self._job_id, error)
            time.sleep(RETRY_S)

    def _run(self) -> None:
        while True:
            event = self._outbox.get()
            if self.exists:
                self.told(event)
