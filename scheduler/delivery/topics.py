"""From the log to what people are told: which topic an event is of, and which webhooks get it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ...core.events import EventKind
from ...core.job import JobSpec
from ...core.notify import Notify, is_url
from ...core.phase import Phase
from ...core.topics import OF_JOBS, Topic
from ..store.events import Event

TRIED = "webhook"  # in the data of a `DELIVERY` event: the number of the webhook that somebody tries
# The kinds of events of which somebody may be told.
TOLD = (
    *(EventKind.RUNNING, EventKind.WAITS, EventKind.FAILING, EventKind.LOST, EventKind.LATE, EventKind.QUARANTINE),
    *(EventKind.FINISH, EventKind.CANCEL, EventKind.NODE, EventKind.ERROR, EventKind.DEGRADED, EventKind.DELIVERY),
)
_TROUBLE = {EventKind.FAILING, EventKind.LOST, EventKind.LATE, EventKind.QUARANTINE}


@dataclass(frozen=True)
class Webhook:
    """Who is told of what. `number`: never given twice.

    owner: whose jobs it is told of; "": those of all, and the cluster.
    events: what it is told of by itself; a job file that names it says what of that job.
    after: the number of the newest event when it was made, which it is not told of any more.
    by_job: whether the URL stood in a job file, so that it goes with the last such job.
    """

    number: int
    owner: str
    name: str
    events: frozenset[Topic]
    after: int
    by_job: bool = False


@dataclass(frozen=True)
class ToldJob:
    """What is told of a job beside its event."""

    id: str
    name: str
    owner: str
    notify: Notify | None = None

    @classmethod
    def of(cls, job_id: str, owner: str, spec: JobSpec) -> ToldJob:
        """Return that of a job."""
        return cls(job_id, spec.name, owner, spec.notify)

    @cached_property
    def named(self) -> frozenset[str]:
        """Return the names of the webhooks that its file names, also of those that it gives as URLs."""
        return frozenset() if self.notify is None else frozenset(map(name_of, self.notify.to))


def name_of(place: str) -> str:
    """Return the name of the webhook that a place of `notify.to` is."""
    return f"url-{hashlib.sha256(place.encode()).hexdigest()[:12]}" if is_url(place) else place


def topic_of(event: Event) -> Topic | None:
    """Return what an event is told as; None: nobody is told of it."""
    data: Mapping[str, object] = event.data
    if event.kind is EventKind.DELIVERY:
        return Topic.TEST if TRIED in data else None
    if event.job_id is None:
        return {
            EventKind.NODE: Topic.NODE,
            EventKind.ERROR: Topic.CLUSTER,
            EventKind.DEGRADED: Topic.CLUSTER,
        }.get(event.kind)
    match event.kind:
        case EventKind.FINISH:
            return Topic.SUCCEEDED if data.get("phase") == Phase.SUCCEEDED.value else Topic.FAILED
        case EventKind.CANCEL if data.get("phase"):  # a job that still saves is told when it has ended
            return Topic.CANCELLED
        case EventKind.RUNNING if data.get("first"):
            return Topic.STARTED
        case EventKind.RUNNING if data.get("elsewhere"):
            return Topic.MOVED
        case EventKind.WAITS:
            return Topic.WAITING
        case kind if kind in _TROUBLE:
            return Topic.TROUBLE
    return None


def told(topic: Topic, event: Event, job: ToldJob | None, webhooks: Iterable[Webhook]) -> list[Webhook]:
    """Return the webhooks that are told of an event.

    Args:
        job: that of the event; None: it is of the cluster, or its job was removed since.
    """
    if topic is Topic.TEST:
        return [one for one in webhooks if one.number == event.data.get(TRIED)]
    return [one for one in webhooks if event.number > one.after and wants(one, topic, job)]


def wants(webhook: Webhook, topic: Topic, job: ToldJob | None) -> bool:
    """Return whether a webhook is told of a topic of a job, or of the cluster."""
    if not webhook.owner:
        return topic in webhook.events
    if job is None or topic not in OF_JOBS or webhook.owner != job.owner:
        return False
    if job.notify is not None and webhook.name in job.named:
        return topic in job.notify.topics
    return topic in webhook.events
