"""How long a job is expected to need still: a mean, a band around it, and where the number comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

BAND = 0.8  # the part of jobs whose time lies between `low_s` and `high_s`
_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


class ExpectedSource(StrEnum):
    """Where an expectation comes from; the values are stable."""

    MEASURED_SPEED = "measured_speed"  # work left over the speed that the job's models give
    EARLIER_RUNS = "earlier_runs"  # what earlier runs of the same script took
    LEARNING_CURVE = "learning_curve"  # when its metric is to reach its target, by its curve so far
    HISTORY = "history"  # what jobs like it took: of the same owner, name or size
    TRACE = "trace"  # the trace of a simulation tells the true length
    ASSUMED = "assumed"  # what such work usually takes, as a profile run
    UNKNOWN = "unknown"  # nobody can tell


_FROM = {
    ExpectedSource.MEASURED_SPEED: "from measured speed",
    ExpectedSource.EARLIER_RUNS: "from earlier runs",
    ExpectedSource.LEARNING_CURVE: "from its learning curve",
    ExpectedSource.HISTORY: "from jobs like it",
    ExpectedSource.TRACE: "told by the trace",
    ExpectedSource.ASSUMED: "as such work usually takes",
}


@dataclass(frozen=True)
class Expected:
    """Seconds a job still needs on the GPUs it asks for; `low_s` to `high_s` is a band of 80 %.

    basis: what the figure goes by, in words, as "41 earlier jobs of this name"; "": its source says enough.
    note: a sentence on what it does not go by, without a full stop; "": there is nothing to say.

    Raises:
        ValueError: for NaN, for less than 0, for a mean outside of the band, and for infinity where it is known.
    """

    mean_s: float
    low_s: float
    high_s: float
    source: ExpectedSource
    basis: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if 0 <= self.low_s <= self.mean_s <= self.high_s < math.inf:
            return  # as nearly always; rounds make thousands
        known = self.source is not ExpectedSource.UNKNOWN
        for name in ("mean_s", "low_s", "high_s"):
            value = getattr(self, name)
            if not value >= 0 or (known and math.isinf(value)):
                raise ValueError(f"{name}: {value} is not accepted, must be a finite number of seconds, 0 or more")
        if not self.low_s <= self.high_s:
            raise ValueError(f"low_s: {self.low_s} is above high_s {self.high_s}, must be at most that")
        if not self.low_s <= self.mean_s <= self.high_s:
            raise ValueError(f"mean_s: {self.mean_s} must lie from low_s {self.low_s} to high_s {self.high_s}")

    @classmethod
    def exactly(cls, seconds: float, source: ExpectedSource) -> Expected:
        """Return what is known without any doubt. Raises ValueError as the class does."""
        return cls(seconds, seconds, seconds, source)

    @property
    def known(self) -> bool:
        """Return whether anybody can tell."""
        return self.source is not ExpectedSource.UNKNOWN

    @property
    def text(self) -> str:
        """Return it for a person, as "about 12 min left (9 to 15), from measured speed"."""
        if not self.known:
            return "nobody knows how long it still needs"
        by = f"by {self.basis}" if self.basis else _FROM[self.source]
        by += f"; {self.note}" if self.note else ""
        size, unit = next((one for one in _UNITS if self.mean_s >= 2 * one[0]), _UNITS[-1])
        mean, low, high = (_number(value / size) for value in (self.mean_s, self.low_s, self.high_s))
        if self.low_s == self.high_s:
            return f"{mean} {unit} left, {by}"
        return f"about {mean} {unit} left ({low} to {high}), {by}"


UNKNOWN = Expected(math.inf, 0.0, math.inf, ExpectedSource.UNKNOWN)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
