"""What a forecast answers: when jobs start and end, each with a band. It comes back as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import TypeAdapter


@dataclass(frozen=True)
class Span:
    """A moment of the scheduler's steady clock, and the band of 80 % around it, seconds."""

    at_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True)
class Hold:
    """A job has so many GPUs of a type from a moment on, in the middle world; 0: none."""

    from_s: float
    gpu_type: str
    gpus: int


@dataclass(frozen=True)
class JobForecast:
    """When a job starts and ends.

    start: when it next gets GPUs to train on; None: it has them, or `why_no_start` tells why nobody knows.
    end: None: `why_no_end` tells why.
    gpu_hours: that it still takes, by GPU type; the mean over worlds.
    """

    start: Span | None = None
    end: Span | None = None
    why_no_start: str = ""
    why_no_end: str = ""
    gpu_hours: dict[str, float] = field(default_factory=dict)
    holds: tuple[Hold, ...] = ()


@dataclass(frozen=True)
class Forecast:
    """A forecast of all jobs.

    made_s, round: of the state that it begins from.
    worlds: how many were simulated.
    cpu_s: what that took of one core.
    """

    made_s: float
    round: int
    worlds: int
    cpu_s: float
    jobs: dict[str, JobForecast] = field(default_factory=dict)


@dataclass(frozen=True)
class WhatIf:
    """The same worlds before and after a change.

    later: seconds by which each job ends later; the median over worlds with the band of 80 % around it.
    """

    before: Forecast
    after: Forecast
    later: dict[str, Span] = field(default_factory=dict)


@dataclass(frozen=True)
class Gives:
    """When a job ends as things are, and what would have to give for its first deadline to hold.

    end: None: `why_no_end` tells why.
    without: the fewest jobs found without which it would hold, by id; (): none were found.
    nodes, node: how many more nodes, and of which form, as "t4:4"; 0: so few were not found.
    later_s: the earliest deadline that holds as things are, a moment; None: none was found.
    alone: whether it would hold if no other job were there.
    holds: whether it holds as things are, so that nothing has to give.
    """

    made_s: float
    end: Span | None = None
    why_no_end: str = ""
    without: tuple[str, ...] = ()
    nodes: int = 0
    node: str = ""
    later_s: float | None = None
    alone: bool = True
    holds: bool = False


FORECAST = TypeAdapter(Forecast)
