"""What an operator may set of webhooks."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator


class WebhookSettings(BaseModel):
    """Options of what tells people and programs of events. Seconds unless the name says otherwise.

    allowed: names of hosts, addresses and networks, such as `10.1.0.0/16`, that webhooks may reach though they are
        no public ones, and without TLS. By default webhooks go by https to public addresses only.
    waiting_s: after so long without GPUs a job's users are told that it waits.
    answer_s: a receiver that has not answered by then is cut off, and asked again later.
    give_up_hours: an event that could not be delivered for so long is given up, which is told.
    most_waiting: events that wait for one webhook; beyond them the oldest are given up.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    allowed: tuple[Annotated[str, Field(min_length=1, max_length=253)], ...] = ()
    waiting_s: float = Field(default=3600.0, ge=1)
    answer_s: float = Field(default=10.0, gt=0, le=120)
    give_up_hours: float = Field(default=24.0, gt=0, le=24 * 30)
    most_waiting: int = Field(default=20_000, ge=1, le=1_000_000)

    @field_validator("allowed")
    @classmethod
    def _networks(cls, allowed: tuple[str, ...]) -> tuple[str, ...]:
        for one in allowed:
            if "/" in one:
                try:
                    ip_network(one)
                except ValueError:
                    raise ValueError(f"{one} is not a network, such as 10.1.0.0/16") from None
        return allowed
