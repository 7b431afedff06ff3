"""Learning anew: a model that predicts held-back runs worse than the one in use is not taken. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic

from .learner import EndedRun, LearnedT, Learner, ended_by, learn


@dataclass(frozen=True)
class Fitted(Generic[LearnedT]):
    """A model, fitted to the runs that had ended by `until_s`; minus infinity: to none."""

    model: LearnedT
    until_s: float = -math.inf


@dataclass(frozen=True)
class Comparison:
    """The losses of two models on the same runs, to which neither was fitted."""

    held_back: int
    new_loss: float
    old_loss: float

    @property
    def taken(self) -> bool:
        """Return whether the new model is taken. It is where both are as good, since it knows more runs."""
        return self.new_loss <= self.old_loss

    @property
    def text(self) -> str:
        """Return it for a person."""
        runs = f"{self.held_back} held-back run{'s' if self.held_back > 1 else ''}"
        return (
            f"the new model is {'taken' if self.taken else 'not taken'}: "
            f"its loss on {runs} is {self.new_loss:.3f}, that of the model in use {self.old_loss:.3f}"
        )


@dataclass(frozen=True)
class Relearned(Generic[LearnedT]):
    """The model to use from now on, and how it was chosen; `comparison` None: there was nothing to compare."""

    fitted: Fitted[LearnedT]
    comparison: Comparison | None = None


def relearn(
    learner: Learner[LearnedT], in_use: Fitted[LearnedT], history: Iterable[EndedRun], now: float
) -> Relearned[LearnedT]:
    """Fit anew to the runs that had ended by `now`, and keep the better of this model and the one in use.

    The newer half of the runs that ended since the last fit is held back. The learner is fitted without them,
    and both models predict them. If the new one is no worse, it is fitted once more, to all runs.

    Raises:
        ValueError: in one sentence, for a model that its own learner cannot read, and for a loss that is none.
    """
    seen = ended_by(history, now)
    since = sum(run.ended_s > in_use.until_s for run in seen)
    held_back = seen[len(seen) - (since + 1) // 2 :]
    taught = seen[: len(seen) - len(held_back)]
    comparison = None
    if held_back and taught:
        new = learn(learner, taught, held_back[0].ended_s)
        comparison = Comparison(
            len(held_back), _loss(learner, new, held_back), _loss(learner, in_use.model, held_back)
        )
        if not comparison.taken:
            return Relearned(in_use, comparison)
    return Relearned(Fitted(learn(learner, seen, now), now), comparison)


def _loss(learner: Learner[LearnedT], model: LearnedT, runs: Sequence[EndedRun]) -> float:
    found = learner.loss(model, runs)
    if not (math.isfinite(found) and found >= 0):
        raise ValueError(f"{learner.name}: loss: {found} is not accepted, must be finite and 0 or more")
    return found
