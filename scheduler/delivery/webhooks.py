"""Who is told of events: webhooks of users and of the cluster, in the store, with URLs that are sealed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from ...core.errors import SecretError, WebhookError
from ...core.job import JobSpec
from ...core.notify import is_url, shown_place
from ...core.receivers import url_problem
from ...core.settings import Settings
from ...core.topics import OF_CLUSTER, OF_JOBS, Topic
from ..access.secrets import Secrets
from ..runtime.clock import Clock
from ..store import audit
from ..store import webhooks as table
from ..store.store import Store
from .chat import chat_problem
from .letters import Kind, kind_of
from .signing import new_secret
from .topics import ToldJob, Webhook, name_of

MOST, MOST_BY_JOBS = 50, 200  # webhooks of one owner, and URLs of its job files
CLUSTER = ""  # the owner of webhooks that are told of all jobs and of the cluster
URL, SECRET = "URL", "SECRET"  # what is sealed of each


class Webhooks:
    """The webhooks of one store. Several threads may call it."""

    def __init__(self, store: Store, secrets: Secrets, settings: Settings, clock: Clock) -> None:
        self._store, self._secrets, self._settings, self._clock = store, secrets, settings, clock
        self._lock = threading.Lock()
        self._rows: dict[int, dict[str, Any]] = {}
        self._known: tuple[Webhook, ...] = ()
        self._read()

    @property
    def all(self) -> tuple[Webhook, ...]:
        """Return all webhooks."""
        return self._known

    def rows(self, owner: str) -> list[dict[str, Any]]:
        """Return the rows of an owner's webhooks, by name."""
        found = [row for row in self._rows.values() if row["owner"] == owner]
        return sorted(found, key=lambda row: str(row["name"]))

    def find(self, owner: str, name: str) -> Webhook:
        """Return a webhook. Raises: KeyError with a sentence for a person."""
        for one in self._known:
            if (one.owner, one.name) == (owner, name):
                return one
        raise KeyError(f"no webhook {name}")

    def kind(self, webhook: Webhook) -> Kind:
        """Return how the receiver of a webhook wants to be told."""
        return kind_of(self._rows[webhook.number]["shown"]) if webhook.number in self._rows else Kind.PROGRAM

    def where(self, webhook: Webhook) -> tuple[str, str]:
        """Return URL and secret of a webhook. Raises: SecretError where they cannot be opened any more."""
        found = self._secrets.opened(_sealed(webhook.owner, webhook.name))
        if URL not in found:
            raise SecretError(f"{webhook.name}: its URL is not there; remove the webhook and add it anew")
        return found[URL], found.get(SECRET, "")

    def add(self, owner: str, name: str, url: str, events: Iterable[str]) -> str:
        """Keep a webhook; return the secret that its receiver is to know, or "" where nothing is signed.

        Args:
            owner: `CLUSTER` for one that is told of all jobs and of the cluster.

        Raises: WebhookError; SecretError.
        """
        topics = _topics(events, of_cluster=owner == CLUSTER)
        if why := self._problem(url):
            raise WebhookError(f"url: {why}")
        with self._lock:
            if any((one.owner, one.name) == (owner, name) for one in self._known):
                raise WebhookError(f"name: there is a webhook {name} already; remove it first, or choose another")
            if sum(one.owner == owner and not one.by_job for one in self._known) >= MOST:
                raise WebhookError(f"name: there are {MOST} webhooks, and no more are kept; remove one first")
            audit.tell(after={"url": shown_place(url), "events": sorted(topics)})
            return self._put(owner, name, url, topics, by_job=False)

    def remove(self, owner: str, name: str) -> Webhook:
        """Remove a webhook, and all that waits for it. Raises: KeyError."""
        with self._lock:
            found = self.find(owner, name)
            audit.tell(before={"url": self._rows[found.number]["shown"]})
            self._remove(found)
            return found

    def check(self, spec: JobSpec, owner: str) -> None:
        """Refuse a job that names a webhook which its user does not have, or a URL to which nothing is sent.

        Raises: WebhookError.
        """
        urls = [] if spec.notify is None else [url for url in spec.notify.urls if not self._has(owner, url)]
        if urls and sum(one.owner == owner and one.by_job for one in self._known) + len(urls) > MOST_BY_JOBS:
            raise WebhookError(
                f"notify.to: active jobs name {MOST_BY_JOBS} URLs, and no more are kept; add a webhook and name it"
            )
        for place in spec.notify.to if spec.notify is not None else ():
            if is_url(place):
                if why := self._problem(place):
                    raise WebhookError(f"notify.to: {why}")
            elif not any((one.owner, one.name) == (owner, place) for one in self._known):
                made = f"`coadapt webhook add {place} URL` makes one"
                raise WebhookError(f"notify.to: {owner or 'nobody'} has no webhook {place}; {made}")

    def take(self, job: ToldJob) -> None:
        """Keep the URLs that a job's file names, as far as there is room. Raises: SecretError."""
        missing = [] if job.notify is None else [url for url in job.notify.urls if not self._has(job.owner, url)]
        if not missing:
            return
        with self._lock:
            for url in missing:
                if sum(one.owner == job.owner and one.by_job for one in self._known) < MOST_BY_JOBS:
                    self._put(job.owner, name_of(url), url, frozenset(), by_job=True)

    def _has(self, owner: str, url: str) -> bool:
        name = name_of(url)
        return any((one.owner, one.name) == (owner, name) for one in self._known)

    def prune(self, waits: Iterable[int]) -> list[int]:
        """Remove URLs of job files that no active job names any more, and return their numbers.

        Args:
            waits: webhooks for which something waits.
        """
        if not any(one.by_job for one in self._known):
            return []
        named = {
            (job.owner, name_of(url))
            for job in self._store.unretired.values()
            if job.spec.notify is not None
            for url in job.spec.notify.urls
        }
        kept = set(waits)
        with self._lock:
            gone = [
                one
                for one in self._known
                if one.by_job and (one.owner, one.name) not in named and one.number not in kept
            ]
            for one in gone:
                self._remove(one)
        return [one.number for one in gone]

    def _problem(self, url: str) -> str:
        if kind_of(url) is Kind.CHAT:
            return chat_problem(url)
        return url_problem(url, self._settings.webhooks.allowed)

    def _put(self, owner: str, name: str, url: str, events: frozenset[Topic], *, by_job: bool) -> str:
        secret = new_secret() if kind_of(url) is Kind.PROGRAM and not by_job else ""
        row = {
            "owner": owner,
            "name": name,
            "shown": shown_place(url),
            "events": json.dumps(sorted(events)),
            "by_job": by_job,
            "after": 0 if by_job else self._store.last_event,
            "created_s": self._clock.wall_s(),
        }
        with self._secrets.keeping(_sealed(owner, name), {URL: url} | ({SECRET: secret} if secret else {})):
            self._store.write(table.add(row))
        self._read()
        return secret

    def _remove(self, webhook: Webhook) -> None:
        with self._store.together():
            self._secrets.forget(_sealed(webhook.owner, webhook.name))
            self._store.write(table.remove(webhook.number))
        self._read()

    def _read(self) -> None:
        rows = table.read(self._store.database)
        self._rows = {row["number"]: row for row in rows}
        self._known = tuple(_webhook(row) for row in rows)


def _webhook(row: dict[str, Any]) -> Webhook:
    known = {topic.value: topic for topic in Topic}
    events = frozenset(known[one] for one in json.loads(row["events"]) if one in known)
    return Webhook(row["number"], row["owner"], row["name"], events, row["after"], bool(row["by_job"]))


def _topics(events: Iterable[str], *, of_cluster: bool) -> frozenset[Topic]:
    accepted: Sequence[Topic] = (*OF_JOBS, *OF_CLUSTER) if of_cluster else OF_JOBS
    found = set()
    for one in events:
        if one not in accepted:
            raise WebhookError(f"events: {one} is not one of {', '.join(accepted)}")
        found.add(Topic(one))
    return frozenset(found)


def _sealed(owner: str, name: str) -> str:
    """Return under which user URL and secret are sealed. No user is called so."""
    return f"webhook/{owner}/{name}"
