"""Delivers events to webhooks, in a thread of its own beside rounds.

What is to be delivered is stored before it is sent, and forgotten once it is acknowledged. A look at all of it is
one transaction at most, for which rounds do not wait, and one more where something was given up. The sender is
another process: it outlives this one, so that a letter whose acknowledgement came while this process was away is
not sent again.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ...core.errors import SecretError
from ...core.figures import DeliveryFigures
from ...core.settings import Settings
from ...core.topics import OF_JOBS, Topic
from ...core.wording import in_words
from ..runtime.clock import Clock
from ..store import webhooks as table
from ..store.events import Event
from ..store.failures import LostStore, StoreFailure
from ..store.store import Store
from .given_up import given_up
from .letters import Letter, body_of, kind_of
from .sender import Outcome, Told
from .topics import TOLD, ToldJob, Webhook, told, topic_of
from .waiting import Delivery, Waiting
from .waits import LongWaits
from .webhooks import Webhooks

log = logging.getLogger(__name__)

PAGE = 500  # events of one look
QUIET_S, BUSY_S = 1.0, 0.05  # until the next look
ANSWER_S = 0.25  # for so long a look waits for what is under way
CARE_S = 30.0  # between two looks for what has waited too long
MOST_UNSAVED = 2000  # events that may be looked at again after a crash


class SenderAway(RuntimeError):
    """The sender does not answer now."""


class Post(Protocol):
    """The way to the sender."""

    def exchange(self, epoch: int, confirmed: Sequence[int], letters: Sequence[Letter], wait_s: float) -> Told:
        """Do as `Sender.exchange`. Raises: SenderAway."""

    def end(self) -> None:
        """End the sender, as nothing is to be sent any more."""


@dataclass
class Lately:
    """How one webhook has been since the service began. `last_s`: of the last try, since 1970."""

    sent: int = 0
    failed: int = 0
    given_up: int = 0
    last_s: float | None = None
    problem: str = ""


@dataclass
class _Step:
    """What one look changes."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    cursor: int = 0
    outcomes: list[Outcome] = field(default_factory=list)  # in the order in which tries ended


class Deliveries:
    """Delivers the events of one store.

    Args:
        epoch: of this service; the sender serves no earlier one any more.
        picture: returns the address of the picture of a job's curve, or "".
    """

    def __init__(
        self,
        store: Store,
        webhooks: Webhooks,
        post: Post,
        settings: Settings,
        clock: Clock,
        epoch: int,
        picture: Callable[[str], str] = lambda job_id: "",
        dice: random.Random | None = None,
    ) -> None:
        self._store, self._webhooks, self._post = store, webhooks, post
        self._settings, self._clock, self._epoch, self._picture = settings, clock, epoch, picture
        self._waiting = Waiting(dice or random.Random())
        self._waits = LongWaits(store, settings)
        self._lately: dict[int, Lately] = {}
        self._gone: list[Delivery] = []  # given up or removed, and not yet out of the store
        self._confirmed: list[int] = []
        self._events: list[Event] = []  # that are to be logged
        self._lock = threading.Lock()
        self._begun = self._stopping = False
        self._wake = threading.Event()
        self._cursor = self._saved = 0
        self._cared_s = float("-inf")
        self.trouble = ""
        self._thread = threading.Thread(target=self._run, name="deliveries", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, grace_s: float = 5.0) -> None:
        """End the thread, and then the sender."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(grace_s)
        self._post.end()

    def woken(self) -> None:
        """Look soon, as there may be something to deliver."""
        self._wake.set()

    def forget(self, webhook: Webhook) -> None:
        """Deliver nothing more to a webhook that was removed."""
        with self._lock:
            self._waiting.forget(webhook.number)
            self._lately.pop(webhook.number, None)

    def lately(self, webhook: Webhook) -> Lately:
        """Return how a webhook has been."""
        with self._lock:
            return replace(self._lately.get(webhook.number, Lately()))

    def count(self, webhook: Webhook) -> int:
        """Return how many events wait for a webhook."""
        with self._lock:
            return self._waiting.count(webhook.number)

    def notes(self) -> list[str]:
        """Return sentences for an operator."""
        return [f"webhooks wait: {self.trouble}"] if self.trouble else []

    def figures(self) -> DeliveryFigures:
        """Return sums since the service began, how many wait, and for how long the oldest of them has."""
        with self._lock:
            oldest_s, now = self._waiting.oldest_s(), self._clock.steady_s()
            some = list(self._lately.values())
            return DeliveryFigures(
                sent=sum(one.sent for one in some),
                failed=sum(one.failed for one in some),
                given_up=sum(one.given_up for one in some),
                pending=self._waiting.count(),
                oldest_s=0.0 if oldest_s is None else max(now - oldest_s, 0.0),
            )

    # --- one look -------------------------------------------------------------------------------------------

    def look(self) -> float:
        """Take up new events, send what is due, and store how it ended. Return the seconds until the next look."""
        self._begin()
        now, step = self._clock.steady_s(), _Step(cursor=self._cursor)
        more = self._new(step)
        self._care(now, step)
        known = self._exchange(now, step)
        self._save(step)
        with self._lock:
            for row in step.rows:
                self._waiting.add(Delivery(row["webhook"], row["event"], row["job_id"], row["at_s"]))
            self._ended(step, now)
            self._lost(known, now)
            if known is not None:
                self._confirmed = [one.number for one in step.outcomes if one.number]
            due_s, busy = self._waiting.next_s(), bool(self._waiting.under_way or self._confirmed or more)
        if busy:
            return BUSY_S
        return QUIET_S if due_s is None else min(max(due_s - now, BUSY_S), QUIET_S)

    def _begin(self) -> None:
        """Read what waits, once. A store that never had webhooks begins with the events to come."""
        if self._begun:
            return
        fact = self._store.read_fact(table.FACT)
        if fact is None:
            self._store.write_fact(table.FACT, str(self._store.last_event))
        self._cursor = self._saved = self._store.last_event if fact is None else int(fact)
        found = table.waiting(self._store.database)
        first = self._post.exchange(self._epoch, [], [], 0.0)
        with self._lock:
            for webhook, event, job, at_s in found:
                self._waiting.add(Delivery(webhook, event, job, at_s))
            self._waiting.taken_up([*first.flying, *(outcome.id for outcome in first.outcomes)])
        self._begun = True

    def _new(self, step: _Step) -> bool:
        """Take up new events. Return whether there are more."""
        last = self._store.last_event
        found = self._store.events_after(self._cursor, PAGE, TOLD)
        jobs: dict[str, ToldJob | None] = {}
        ahead_s = self._clock.wall_s() - self._clock.steady_s()
        for event in found:
            if (topic := topic_of(event)) is None:
                continue
            job = None if event.job_id is None else self._job(event.job_id, jobs)
            if job is not None:
                self._webhooks.take(job)
            takers = told(topic, event, job, self._webhooks.all)
            step.rows += [self._row(one, topic, event, job, ahead_s) for one in takers]
        more = len(found) == PAGE
        newest = found[-1].number if found else 0  # it may have come after `last` was read
        step.cursor = newest if more else max(last, newest, self._cursor)
        return more

    def _job(self, job_id: str, known: dict[str, ToldJob | None]) -> ToldJob | None:
        if job_id not in known:
            job = self._store.find(job_id)
            known[job_id] = None if job is None else ToldJob.of(job.id, job.owner, job.spec)
        return known[job_id]

    def _row(
        self, webhook: Webhook, topic: Topic, event: Event, job: ToldJob | None, ahead_s: float
    ) -> dict[str, Any]:
        kind = self._webhooks.kind(webhook)
        picture = self._picture(job.id) if job is not None and topic in OF_JOBS else ""
        body = body_of(kind, topic, event, job, event.time_s + ahead_s, picture)
        job_id, now = event.job_id or "", self._clock.steady_s()
        return {"webhook": webhook.number, "event": event.number, "job_id": job_id, "at_s": now, "body": body}

    def _care(self, now: float, step: _Step) -> None:
        """Give up what has waited too long, tell of jobs that wait for long, and forget URLs of ended jobs."""
        if now - self._cared_s < CARE_S:
            return
        self._cared_s = now
        limits = self._settings.webhooks
        with self._lock:
            gone = self._waiting.give_up(now - limits.give_up_hours * 3600.0, limits.most_waiting)
            waits = {one.number for one in self._webhooks.all if self._waiting.count(one.number)}
            for one in gone:
                self._lately.setdefault(one.webhook, Lately()).given_up += 1
        self._gone += gone
        self._events += given_up(gone, self._webhooks.all, self._problem_of, now)
        self._events += self._waits.found(now, self._webhooks.all)
        waits |= {row["webhook"] for row in step.rows}
        for number in self._webhooks.prune(waits):
            self._lately.pop(number, None)

    def _problem_of(self, number: int) -> str:
        return self._lately.get(number, Lately()).problem

    def _exchange(self, now: float, step: _Step) -> frozenset[str] | None:
        """Hand over what is due, and take how letters ended. Return what the sender knows; None: it is away."""
        with self._lock:
            due = self._waiting.due(now)
            idle = not (due or self._confirmed or self._waiting.under_way)
        if idle:
            return frozenset()
        letters = self._letters(due, step)
        try:
            known = self._post.exchange(self._epoch, self._confirmed, letters, ANSWER_S)
        except SenderAway as error:
            self.trouble = in_words(error)  # it may have taken them, so they count as under way until it tells
            return None
        self.trouble = ""
        step.outcomes += known.outcomes
        return known.flying | {outcome.id for outcome in known.outcomes}

    def _letters(self, due: Sequence[Delivery], step: _Step) -> list[Letter]:
        bodies = table.bodies(self._store.database, [(one.webhook, one.event) for one in due]) if due else {}
        webhooks, limits, found = {one.number: one for one in self._webhooks.all}, self._settings.webhooks, []
        places = dict[int, tuple[str, str]]()  # each is opened once in a look
        for one in due:
            webhook, body = webhooks.get(one.webhook), bodies.get((one.webhook, one.event))
            if webhook is None or body is None:  # it was removed meanwhile
                step.outcomes.append(Outcome(one.id))
                continue
            try:
                if one.webhook not in places:
                    places[one.webhook] = self._webhooks.where(webhook)
            except SecretError as error:
                step.outcomes.append(Outcome(one.id, str(error)))
                continue
            (url, secret), answer_s, allowed = places[one.webhook], limits.answer_s, limits.allowed
            found.append(Letter(one.id, one.webhook, kind_of(url), url, secret, body, answer_s, allowed))
        return found

    def _save(self, step: _Step) -> None:
        """Store what one look has changed, if there is anything. Raises: StoreFailure."""
        with self._lock:
            gone = [(one.webhook, one.event) for one in self._gone]
            flying = (self._waiting.flying(one.id) for one in step.outcomes if not one.problem)
            gone += [(one.webhook, one.event) for one in flying if one is not None]
        if not (step.rows or gone or self._events or step.cursor - self._saved > MOST_UNSAVED):
            self._cursor = step.cursor
            return
        if self._events:  # first, so that what is given up is told, whatever happens next
            self._store.log(*self._events)
            self._events = []
        self._store.write_beside(table.looked(step.rows, gone, step.cursor))  # rounds do not wait for it
        self._gone = []
        self._cursor = self._saved = step.cursor

    def _ended(self, step: _Step, now: float) -> None:
        for outcome in step.outcomes:
            if outcome.problem:
                one = self._waiting.failed(outcome.id, now, outcome.after_s)
            else:
                one = self._waiting.accepted(outcome.id, now)
            if one is not None:
                lately = self._lately.setdefault(one.webhook, Lately())
                lately.sent, lately.failed = (
                    lately.sent + (not outcome.problem),
                    lately.failed + bool(outcome.problem),
                )
                lately.last_s, lately.problem = self._clock.wall_s(), outcome.problem

    def _lost(self, known: Iterable[str] | None, now: float) -> None:
        """Send again what the sender knows nothing of, as its process was lost."""
        if known is not None:
            for sent_id in self._waiting.flying_ids() - set(known):
                self._waiting.failed(sent_id, now)

    # --- the thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            wait_s = QUIET_S
            try:
                wait_s = self.look()
            except LostStore:
                return  # the loop ends the process
            except StoreFailure:
                pass  # the watch of the store tells it, and the sender keeps what is not confirmed
            except Exception as error:
                if self.trouble != in_words(error):
                    log.exception("deliveries")
                self.trouble = in_words(error)
            self._wake.wait(wait_s)
            self._wake.clear()
