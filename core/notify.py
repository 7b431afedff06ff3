"""Who is told of a job: its `notify`, and trackers. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .topics import Topic

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
MOST_URL = 2000  # characters
Place = Annotated[str, Field(min_length=1, max_length=MOST_URL, pattern=r"^[^\x00\s]*$")]


class JobTopic(StrEnum):
    """What a job file can ask to be told of: a topic of jobs without `job.`."""

    STARTED = "started"
    MOVED = "moved"
    WAITING = "waiting"
    TROUBLE = "trouble"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def topic(self) -> Topic:
        """Return the topic."""
        return Topic(f"job.{self.value}")


class Tracker(StrEnum):
    """An experiment tracker to which metrics of `coadapt.report` can go on."""

    MLFLOW = "mlflow"
    WANDB = "wandb"


class Notify(BaseModel):
    """Who is told of a job, and of what."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True
    )

    to: Annotated[list[Place], Field(min_length=1, max_length=20)]
    """Names of webhooks of the job's user (coadapt webhook list), or URLs."""
    events: Annotated[list[JobTopic], Field(min_length=1)] = [JobTopic.SUCCEEDED, JobTopic.FAILED]
    """Of what; by default of the job's end and failure."""

    @field_validator("to")
    @classmethod
    def _once(cls, to: list[str]) -> list[str]:
        for place in to:
            if to.count(place) > 1:
                raise ValueError(f"{shown_place(place)} is given twice; each is accepted once")
        return to

    @property
    def topics(self) -> frozenset[Topic]:
        """Return of what is told."""
        return frozenset(one.topic for one in self.events)

    @property
    def urls(self) -> list[str]:
        """Return the places that are URLs."""
        return [place for place in self.to if is_url(place)]


def is_url(place: str) -> bool:
    """Return whether a place of `notify.to` is a URL, and not the name of a webhook."""
    return "://" in place


def shown_place(place: str) -> str:
    """Return a place as it may be shown: of a URL scheme and host, as the rest may let anybody post there."""
    if not is_url(place):
        return place
    scheme, _, rest = place.partition("://")
    if scheme.lower() not in ("http", "https"):
        return f"{scheme}://…"  # a URL of chat or mail may hold a token where others have a host
    host = rest.split("/")[0].split("?")[0].rpartition("@")[2]
    return f"{scheme}://{host}/…" if "/" in rest else f"{scheme}://{host}"
