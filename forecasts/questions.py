"""What is asked of the process that forecasts: lines of JSON, one question and one answer at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter

from ..core.cluster import Node
from ..core.teams import Teams
from .answers import Forecast, Gives, WhatIf
from .state import LiveJob, LiveState, PastJob


@dataclass(frozen=True)
class Change:
    """What would be otherwise. Nothing given: nothing.

    submit: jobs that are submitted now.
    nodes: that come.
    without: ids of nodes that go; their jobs lose what they have there.
    policy, options: that plans instead.
    teams: by which rounds go instead.
    """

    submit: tuple[LiveJob, ...] = ()
    nodes: tuple[Node, ...] = ()
    without: tuple[str, ...] = ()
    policy: str | None = None
    teams: Teams | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """One question. The process keeps `past` for later questions and adds to it.

    cpu_s: seconds of one core that the answer may take; a first look ahead that takes longer may take twice that.
    near: how many rounds are as live before they lie further apart.
    change: for `whatif`, and for `deadline` of a job that would be submitted.
    job: for `deadline`: the id of the job whose deadline is asked about.
    """

    kind: Literal["forecast", "whatif", "deadline"]
    state: LiveState
    past: tuple[PastJob, ...] = ()
    cpu_s: float = 10.0
    near: int = 20
    change: Change = field(default_factory=Change)
    job: str = ""


@dataclass(frozen=True)
class Answer:
    """One answer. error: one sentence, instead of all else; too_long: only a shorter look would do."""

    forecast: Forecast | None = None
    whatif: WhatIf | None = None
    gives: Gives | None = None
    error: str = ""
    too_long: bool = False
    cpu_s: float = 0.0


QUESTION: TypeAdapter[Question] = TypeAdapter(Question)
ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)
