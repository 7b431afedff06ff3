"""Keeps who is told of events, and says how that goes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...core.events import EventKind
from ...core.schemas import WebhookRow
from ..delivery.deliveries import Deliveries
from ..delivery.pictures import Pictures
from ..delivery.topics import TRIED
from ..delivery.webhooks import Webhooks
from ..runtime.clock import Clock
from ..runtime.degraded import StoreWatch
from ..store.events import Event
from ..store.metrics import MetricsHistory
from ..store.store import Store


class WebhooksDesk:
    """Answers for webhooks and pictures. `owner` is a user, or "" for webhooks of the cluster."""

    def __init__(
        self,
        store: Store,
        webhooks: Webhooks,
        deliveries: Deliveries,
        pictures: Pictures,
        history: MetricsHistory,
        clock: Clock,
        watch: StoreWatch,
    ) -> None:
        self._store, self._webhooks, self._deliveries = store, webhooks, deliveries
        self._pictures, self._history, self._clock, self._watch = pictures, history, clock, watch

    def webhooks(self, owner: str) -> Sequence[WebhookRow]:
        """Return an owner's webhooks, and how each has been since the service began."""
        return [self._row(row) for row in self._webhooks.rows(owner)]

    def add_webhook(self, owner: str, name: str, url: str, events: Sequence[str]) -> dict[str, Any]:
        """Keep a webhook; return its `secret`, this once; "": none. Raises: WebhookError; StateError."""
        with self._watch.storing():
            return {"name": name, "secret": self._webhooks.add(owner, name, url, events)}

    def remove_webhook(self, owner: str, name: str) -> dict[str, Any]:
        """Remove a webhook; return how many events were `waiting` for it. Raises: KeyError; StateError."""
        with self._watch.storing():
            waiting = self._deliveries.count(self._webhooks.find(owner, name))
            self._deliveries.forget(self._webhooks.remove(owner, name))
        return {"waiting": waiting}

    def try_webhook(self, owner: str, name: str, who: str) -> dict[str, Any]:
        """Send a webhook an event of its own; return its `tries` until now. Raises: KeyError; StateError."""
        webhook = self._webhooks.find(owner, name)
        lately = self._deliveries.lately(webhook)
        data = {"text": "somebody tries a webhook", TRIED: webhook.number}
        with self._watch.storing():
            self._store.log(Event(EventKind.DELIVERY, self._clock.steady_s(), None, data, "webhook test", who))
        self._deliveries.woken()
        return {"tries": lately.sent + lately.failed}

    def curve(self, job_id: str, until_s: int, signature: str) -> dict[str, Any]:
        """Return `metric` and `points` (seconds, value) of a job's curve. Raises: KeyError for another address."""
        if not self._pictures.is_good(job_id, until_s, signature):
            raise KeyError("there is no such picture, or its address has expired")
        job, found = self._store.get(job_id), self._history.read(job_id)
        target = job.spec.training.target
        wanted = [*([target.metric] if target is not None else []), "loss", *sorted(found)]
        metric = next((name for name in wanted if found.get(name)), "")
        points = [(one.at_s, one.value) for one in found.get(metric, ()) if one.value is not None]
        return {"metric": metric, "points": points}

    def _row(self, row: dict[str, Any]) -> WebhookRow:
        webhook = self._webhooks.find(row["owner"], row["name"])
        lately = self._deliveries.lately(webhook)
        return WebhookRow(
            name=row["name"],
            url=row["shown"],
            events=json.loads(row["events"]),
            by_job=bool(row["by_job"]),
            created_s=row["created_s"],
            waiting=self._deliveries.count(webhook),
            sent=lately.sent,
            failed=lately.failed,
            given_up=lately.given_up,
            last_s=lately.last_s,
            problem=lately.problem,
        )
