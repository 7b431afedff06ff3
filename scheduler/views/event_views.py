"""Events as users are shown them. Pure."""

from __future__ import annotations

from typing import Any

from ...core.events import shown_kind
from ...core.schemas import (
    JobEvent,
)
from ..store.events import Event

_OF_TRIALS = (
    "epoch",
    "trials",
    "metrics",
    "left",
    "memory_gib",
    "gpu_gib",
    "notes",
)  # by which a study knows what its trials reported


def job_event(event: Event) -> JobEvent:
    kind = shown_kind(event.kind)
    return JobEvent(time_s=event.time_s, kind=kind, text=str(event.data.get("text", kind)))


def numbered_event(event: Event) -> dict[str, Any]:
    """Return an event as the API sends it."""
    told = {name: event.data[name] for name in _OF_TRIALS if name in event.data}
    return {**job_event(event), "number": event.number, "job_id": event.job_id, "who": event.who, **told}
