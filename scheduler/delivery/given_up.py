"""Tells of events that were not delivered and will not be. Its sentences are events of the log themselves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from ...core.events import EventKind
from ..store.events import Event
from .topics import Webhook
from .waiting import Delivery

log = logging.getLogger(__name__)


def given_up(
    gone: Sequence[Delivery], webhooks: Iterable[Webhook], problem: Callable[[int], str], now: float
) -> list[Event]:
    """Return an event for each webhook to which something was given up, and write it to the service's log.

    Args:
        problem: returns what was wrong with a webhook lately, by its number; "": nothing.
    """
    found, known = list[Event](), {one.number: one for one in webhooks}
    for number in dict.fromkeys(one.webhook for one in gone):
        of = [one for one in gone if one.webhook == number]
        if (webhook := known.get(number)) is None:
            continue
        what = "1 event was" if len(of) == 1 else f"{len(of)} events were"
        why = problem(number) or "they were too many"
        text = f"{what} not delivered to webhook {webhook.name} and will not be: {why}"
        job_id = (of[-1].job or None) if webhook.owner else None  # so that nobody else reads of it
        found.append(Event(EventKind.DELIVERY, now, job_id, {"text": text}, cause="given up"))
        log.warning("%s", text)
    return found
