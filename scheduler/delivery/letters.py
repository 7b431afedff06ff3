"""What is sent: an event as JSON for programs, as a message of Slack, or as a title and a text. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from ...core.json_numbers import dumps
from ...core.topics import Topic
from ..store.events import Event
from .topics import ToldJob

MOST_TEXT = 2000  # characters of a sentence
WORDS = {
    Topic.STARTED: "trains",
    Topic.MOVED: "has moved",
    Topic.WAITING: "waits for long",
    Topic.TROUBLE: "has trouble",
    Topic.SUCCEEDED: "has succeeded",
    Topic.FAILED: "has failed",
    Topic.CANCELLED: "was cancelled",
}
_SHOWN = ("gpu_type", "gpus", "nodes", "phase", "metrics", "tries")  # of an event's data


class Kind(StrEnum):
    """How a receiver wants to be told."""

    PROGRAM = "program"  # JSON, signed
    SLACK = "slack"  # the JSON of Slack's incoming webhooks
    CHAT = "chat"  # a title and a text, by a library that knows many services


@dataclass(frozen=True, repr=False)
class Letter:
    """One event to one receiver, ready to be sent.

    id: the same in each try. url, secret: where to, and with what it is signed; "": it is not.
    allowed: addresses beside public ones that may be asked. answer_s: the longest that an answer may take.
    """

    id: str
    webhook: int
    kind: Kind
    url: str
    secret: str
    body: str
    answer_s: float
    allowed: tuple[str, ...] = ()


def kind_of(url: str) -> Kind:
    """Return how the receiver at a URL wants to be told."""
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https"):
        return Kind.CHAT
    return Kind.SLACK if parts.hostname in ("hooks.slack.com", "hooks.slack-gov.com") else Kind.PROGRAM


def body_of(kind: Kind, topic: Topic, event: Event, job: ToldJob | None, wall_s: float, picture: str = "") -> str:
    """Return what is sent of an event, which is the same in each try.

    Args:
        wall_s: when it happened, in seconds since 1970.
        picture: the address of the picture of the job's curve; "": there is none.
    """
    title, text = title_of(topic, job), str(event.data.get("text", ""))[:MOST_TEXT]
    if kind is Kind.CHAT:
        return dumps({"title": title, "text": f"{text}\n{picture}".strip(), "bad": topic in _BAD})
    if kind is Kind.SLACK:
        return dumps(_slack(title, text, picture))
    told: dict[str, Any] = {"event": event.number, "text": text}
    if job is not None:
        told |= {"job": job.id, "name": job.name, "owner": job.owner}
        told |= {name: event.data[name] for name in _SHOWN if name in event.data}
    if picture:
        told["picture"] = picture
    at = datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return dumps({"type": topic.value, "timestamp": at, "data": told})


_BAD = (Topic.TROUBLE, Topic.FAILED, Topic.CLUSTER)


def title_of(topic: Topic, job: ToldJob | None) -> str:
    """Return the one line that people see first."""
    if topic is Topic.TEST:
        return "This webhook of Coadapt works"
    if job is None:
        return "A node has changed" if topic is Topic.NODE else "The cluster has trouble"
    return f"{job.id} {WORDS[topic]}"


def _slack(title: str, text: str, picture: str) -> dict[str, Any]:
    said = f"*{_escaped(title)}*" + (f"\n{_escaped(text)}" if text else "")
    blocks: list[dict[str, Any]] = [{"type": "section", "text": {"type": "mrkdwn", "text": said}}]
    if picture:
        blocks.append({"type": "image", "image_url": picture, "alt_text": "the curve of the job's metric"})
    return {"text": f"{title}: {text}" if text else title, "blocks": blocks}


def _escaped(text: str) -> str:
    """Return a text in which nothing is a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def chat_of(body: str) -> tuple[str, str, bool]:
    """Return title, text and whether it is bad news, of the body of a chat message."""
    found = json.loads(body)
    return str(found["title"]), str(found["text"]), bool(found["bad"])
