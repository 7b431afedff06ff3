"""Answers what the script's optimizers, schedulers and scalers ask when the script calls them.

It is the `Stepping` of `stepping.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ....core.training_config import TrainingConfig
from ..checks.batch_watch import BatchWatch
from ..gradients.gradients import Gradients
from ..gradients.learning_rate import lr_rule
from ..state.prepared import Prepared
from .loop_state import LoopState
from .script_progress import ScriptProgress
from .step_scale import StepScale


class ScriptCalls:
    """Notes the script's backwards and steps, and says which of the steps happen.

    `combined` gives the mean of a replica's value over all of them.
    """

    def __init__(
        self,
        prepared: Prepared,
        config: TrainingConfig,
        loop: LoopState,
        scale: StepScale,
        progress: ScriptProgress,
        gradients: Gradients,
        watch: BatchWatch,
        combined: Callable[[float], float],
    ) -> None:
        self._loop, self._step, self._scale, self._progress = loop, loop.step, scale, progress
        self._gradients, self._watch = gradients, watch
        self.combined = combined
        self._rules = {id(optimizer): lr_rule(config, optimizer) for optimizer in prepared.optimizers}

    @property
    def batch_key(self) -> tuple[int, int, int]:
        return self._loop.batch_key

    @property
    def in_iteration(self) -> bool:
        return self._loop.in_iteration

    @property
    def partial(self) -> bool:
        return self._loop.partial

    @property
    def step_happens(self) -> bool:
        return not (self._gradients.hidden or self._gradients.undone or self._step.void)

    @property
    def step_progress(self) -> float:
        return self._scale.step_progress

    @property
    def pass_progress(self) -> float:
        return self._progress.pass_progress

    @property
    def schedule_credit(self) -> list[float]:
        return self._loop.position.schedule_credit

    @property
    def schedule_calls(self) -> list[int]:
        return self._step.schedule_calls

    @property
    def schedule_place(self) -> float | None:
        follows = self._progress.by_progress and self._scale.split.merged > 1
        return self._progress.progress_epochs if follows else None

    def lr_factor(self, optimizer: torch.optim.Optimizer) -> float:
        """Return what the optimizer's learning rate is multiplied by for the running step."""
        rule, scale = self._rules[id(optimizer)], self._scale
        return rule.factor(scale.scale, scale.gain, self._progress.progress_epochs)

    def ask_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that the script makes a step. Raises RuntimeError outside of its loop."""
        if not self._loop.in_loop:
            raise RuntimeError(
                f"{type(optimizer).__name__}.step is called outside of `for … in coadapt.epochs(n)` and "
                "`coadapt.steps(n)`; a job trains inside of one of them"
            )
        step = self._step
        step.asked_in_part.add((self._gradients.backwards, id(optimizer)))
        step.asked_of[optimizer] = None
        if not self._loop.partial:
            step.asked, step.unstepped = True, False
            self._watch.step_asked()

    def before_step(self, optimizer: torch.optim.Optimizer) -> None:
        self._gradients.before_step([p for group in optimizer.param_groups for p in group["params"]])

    def count_step(self) -> None:
        self._step.stepped = True

    def before_backward(self) -> bool:
        """Note a backward. Returns False where the batch has to be done again, in one pass.

        A step between two backwards of a batch cannot be put off to a later part.
        """
        loop = self._loop
        if loop.ahead is not None:
            loop.ahead.trained()
        self._watch.before_backward()
        if not self._step.asked_in_part:
            return True
        loop.one_pass = True
        return loop.read_by is None or (loop.read_by.passes == 1 and loop.read_by.merged == 1)
