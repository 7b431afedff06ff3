"""What a job file says of a deadline, and the rewards that follow from it. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from operator import itemgetter
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from .rewards import Rewards
from .span_field import Span
from .spans import MOST_S, seconds_of

EXAMPLE = "2027-01-31T08:00:00+01:00"
MOST_STEPS = 20
_INSTANT = re.compile(r"\s*\d{4}-\d")
Worth = Annotated[float, Field(gt=0)]


def _instant(text: str) -> datetime:
    """Return an instant with its zone. Raises ValueError, in one sentence, for any other text."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text[:60]} is no instant; one such as {EXAMPLE} is accepted") from None
    if moment.tzinfo is None:
        raise ValueError(f"{text[:60]} has no time zone; one such as {EXAMPLE} is accepted")
    return moment


def _checked_instant(value: Any) -> Any:
    if isinstance(value, str):
        _instant(value)
    return value


Instant = Annotated[str, BeforeValidator(_checked_instant)]


class DeadlineSpec(BaseModel):
    """By when a job is to have ended, and what that is worth."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    within: Span | None = None
    """So long after submission, in seconds or as in 6h."""
    by: Instant | None = None
    """An instant with its time zone."""
    soft: bool = False
    """Whether ending somewhat later is worth something yet: 80, 50 and 20 of 100 by 1.1, 1.2 and 1.5 times it."""
    worth: Annotated[dict[str, Worth], Field(min_length=1, max_length=MOST_STEPS)] | None = None
    """Steps of one's own: a span after submission, and what ending by then is worth, as in {6h: 100, 8h: 40}."""

    @model_validator(mode="after")
    def _one_form(self) -> DeadlineSpec:
        given = [name for name in ("within", "by", "worth") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{given[1]}: stands beside {given[0]}; one of within, by and worth is accepted")
        if not given:
            raise ValueError("within: missing; one of within, by and worth says by when the job is to end")
        if self.soft and self.worth is not None:
            raise ValueError("soft: stands beside worth, which says itself what ending later is worth")
        if self.worth is not None:
            try:
                Rewards.of(self._steps())
            except ValueError as error:
                raise ValueError(f"worth: {error}") from None
        return self

    def _steps(self) -> list[tuple[float, float]]:
        """Return the user's own steps by time, (seconds, worth). Raises ValueError for a text that is no span."""
        found = []
        for text, worth in (self.worth or {}).items():
            seconds = seconds_of(text)
            if seconds is None or not 0 < seconds <= MOST_S:
                raise ValueError(f"{text[:60]} is no span of time above 0; one such as 6h is accepted")
            found.append((seconds, worth))
        return sorted(found, key=itemgetter(0))

    def passed(self, now_s: float) -> str:
        """Return in a sentence that its instant is not after `now_s`, seconds since 1970; "": it is."""
        if self.by is None or (at_s := _instant(self.by).timestamp()) > now_s:
            return ""
        before = (now_s - at_s) / 3600
        return f"deadline.by: {self.by} has passed, {before:.2g} h ago; an instant that is to come is accepted"

    @property
    def most_worth(self) -> float:
        """What the job is worth at most; 0: it does not say."""
        return max(self.worth.values()) if self.worth else 0.0

    def rewards(self, submitted_s: float) -> Rewards | None:
        """Return what ending by when is worth to a job submitted at `submitted_s`, seconds since 1970.

        None: its instant was not after that, as of a job that begins another life.
        """
        if self.worth is not None:
            return Rewards.of(self._steps())
        within_s = self.within
        if self.by is not None:
            within_s = _instant(self.by).timestamp() - submitted_s
        assert within_s is not None
        if within_s <= 0:
            return None
        return Rewards.soft(within_s) if self.soft else Rewards.strict(within_s)


def _as_mapping(value: Any) -> Any:
    """Return the mapping that a span or an instant stands for."""
    if isinstance(value, str) and _INSTANT.match(value):
        return {"by": value}
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return {"within": value}
    return value


Deadline = Annotated[
    DeadlineSpec,
    BeforeValidator(_as_mapping),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_S},
                {"type": "string"},
                DeadlineSpec.model_json_schema(mode="validation"),
            ]
        }
    ),
]
"""A span after submission, an instant with its zone, or a mapping."""


def worth_refusal(deadline: DeadlineSpec | None, most: float) -> str:
    """Return in a sentence that a job is worth more than an operator allows; "": it is not."""
    if deadline is None or deadline.most_worth <= most:
        return ""
    return f"deadline.worth: {deadline.most_worth:g} is more than {most:g}, the most that a job may be worth here"
