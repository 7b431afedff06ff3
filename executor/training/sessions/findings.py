"""Keeps what was found out about the script's losses and steps, for processes that come later."""

from __future__ import annotations

from collections.abc import Sequence

from ..checks.batch_watch import BatchWatch
from ..checks.gradient_check import COMPARED
from ..losses.loss_weights import LossWeights
from .loop_state import LoopState


class Findings:
    """Flags that travel to newcomers and into checkpoints, so that nobody finds the same out again."""

    def __init__(self, weights: LossWeights, watch: BatchWatch, loop: LoopState) -> None:
        self._weights, self._watch, self._loop = weights, watch, loop

    def learned(self) -> list[bool]:
        """Return what was found out: of the losses, of gradients that were compared, and of steps."""
        compared = [number < self._watch.check.done for number in range(len(COMPARED))]
        return [*self._weights.learned, *compared, self._loop.one_pass]

    def learn(self, found: Sequence[bool]) -> None:
        """Take over what others have learned."""
        *of_losses, one_pass = found
        compared, of_losses = of_losses[-len(COMPARED) :], of_losses[: -len(COMPARED)]
        self._watch.check.done = max(self._watch.check.done, sum(compared))
        self._weights.learn(*of_losses)
        self._loop.one_pass |= one_pass
