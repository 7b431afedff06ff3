"""The seam for learning: models that are fitted to the runs that have ended, and to no others. Pure.

A learner runs beside rounds, live in a thread and simulated in virtual time. It is given a moment and sees only
what had ended by then (`learn`). So a simulated day teaches what a live day would have taught.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from .curves.curve import NO_CURVE, MetricCurve


@dataclass(frozen=True)
class EndedRun:
    """One run that ended well.

    `script`: equal for runs of the same files and arguments. `trained_s`: seconds with GPUs. `samples`: trained,
    at the initial batch size; None: not known. `curve`: of the metric that its target named, by such samples.
    Raises ValueError for a time or a count that cannot be.
    """

    user: str
    script: str
    ended_s: float
    trained_s: float
    samples: float | None = None
    curve: MetricCurve = NO_CURVE

    def __post_init__(self) -> None:
        for name in ("ended_s", "trained_s", "samples"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name}: {value} is not accepted, must be finite and 0 or more")


class Learned(Protocol):
    """A fitted model."""

    def to_json(self) -> Mapping[str, Any]:
        """Return the model as plain JSON values."""


LearnedT = TypeVar("LearnedT", bound=Learned)


class Learner(Protocol[LearnedT]):
    """Fits one kind of model. `name`: of the model's file."""

    name: ClassVar[str]

    def fit(self, history: Sequence[EndedRun], now: float) -> LearnedT:
        """Return a model of these runs, all of which had ended by `now`."""

    def loss(self, model: LearnedT, runs: Sequence[EndedRun]) -> float:
        """Return the mean error of a model's predictions for runs that it was not fitted to; 0 or more."""

    def read(self, document: Mapping[str, Any]) -> LearnedT:
        """Return the model that `to_json` wrote. Raises ValueError, in one sentence, for any other document."""


def ended_by(history: Iterable[EndedRun], now: float) -> list[EndedRun]:
    """Return the runs that had ended by `now`, in the order in which they ended."""
    return sorted((run for run in history if run.ended_s <= now), key=lambda run: run.ended_s)


def learn(learner: Learner[LearnedT], history: Iterable[EndedRun], now: float) -> LearnedT:
    """Fit to the runs that had ended by `now`, in the order in which they ended.

    Raises:
        ValueError: in one sentence, for a model that its own learner cannot read, such as one with NaN.
    """
    found = learner.fit(ended_by(history, now), now)
    return learner.read(found.to_json())
