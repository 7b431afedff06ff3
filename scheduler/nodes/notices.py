"""What the metadata services of clouds say before they take a node away. Pure.

AWS tells two minutes ahead by a document that is not there before. GCP only says that it preempts, 30 s ahead.
Azure lists what is to happen to several machines, of which one is asked about by its name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

GCP_S = 30.0  # from when GCP says so until it stops the machine
AZURE_TAKES = frozenset({"Preempt", "Terminate", "Reboot", "Redeploy"})  # of "Freeze" a job notices little
SHOWN = 60  # characters of an answer in a sentence


class MetadataError(ValueError):
    """An answer that does not say whether the node stays; one sentence."""


@dataclass(frozen=True)
class Notice:
    """A node goes away. `what`: a clause for people. `left_s`: in so many seconds, from when it was asked."""

    what: str
    left_s: float


def of_aws(status: int, body: str, wall_s: float) -> Notice | None:
    """Return what `spot/instance-action` says; None: the node stays. Raises: MetadataError."""
    if status == 404:
        return None
    _check_status("aws", status)
    row = _object("aws", body)
    try:
        told = datetime.fromisoformat(str(row["time"]))
    except (KeyError, ValueError):
        raise MetadataError(f"aws: its notice has no time: {_shown(body)}") from None
    action = str(row.get("action", "terminate"))[:SHOWN]
    moment = told if told.tzinfo is not None else told.replace(tzinfo=UTC)
    return Notice(f"spot notice of aws ({action})", max(moment.timestamp() - wall_s, 0.0))


def of_gcp(status: int, body: str, since_s: float) -> Notice | None:
    """Return what `instance/preempted` says; None: the node stays. Raises: MetadataError.

    Args:
        since_s: for how long it has said so.
    """
    _check_status("gcp", status)
    word = body.strip().upper()
    if word not in ("TRUE", "FALSE"):
        raise MetadataError(f"gcp: it says neither TRUE nor FALSE: {_shown(body)}")
    return Notice("preemption notice of gcp", max(GCP_S - since_s, 0.0)) if word == "TRUE" else None


def of_azure(status: int, body: str, name: str, wall_s: float) -> Notice | None:
    """Return the first scheduled event that takes a machine away; None: there is none. Raises: MetadataError.

    Args:
        name: of the machine, as Azure calls it; "": of any.
    """
    _check_status("azure", status)
    events = _object("azure", body).get("Events")
    if not isinstance(events, list):
        raise MetadataError(f"azure: its answer has no list of events: {_shown(body)}")
    found = [
        Notice(f"scheduled event of azure ({event['EventType']})", _not_before(event, wall_s))
        for event in events
        if isinstance(event, dict) and event.get("EventType") in AZURE_TAKES and _is_about(event, name)
    ]
    return min(found, key=lambda one: one.left_s, default=None)


def _is_about(event: Mapping[str, Any], name: str) -> bool:
    machines = event.get("Resources")
    return not name or not isinstance(machines, list) or name in machines


def _not_before(event: Mapping[str, Any], wall_s: float) -> float:
    """Return in how many seconds an event may begin; one that has begun tells no moment."""
    text = str(event.get("NotBefore") or "")
    if not text:
        return 0.0
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        raise MetadataError(f"azure: NotBefore is no moment: {_shown(text)}") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(moment.timestamp() - wall_s, 0.0)


def _check_status(cloud: str, status: int) -> None:
    if status != 200:
        raise MetadataError(f"{cloud}: it answers with status {status}")


def _object(cloud: str, body: str) -> Mapping[str, Any]:
    try:
        row = json.loads(body)
    except (ValueError, RecursionError):
        raise MetadataError(f"{cloud}: its answer is not JSON: {_shown(body)}") from None
    if not isinstance(row, dict):
        raise MetadataError(f"{cloud}: its answer is no object: {_shown(body)}")
    return row


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
