"""A trial that trains by itself, as its script alone would, with states that groups of trials can take over."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from .errors import CannotFuse
from .group import State, attributes_of, optimizer_state, outermost, places_of, uncounted
from .hyperparameters import of_process
from .schedulers import knowledge_of, learn


class OneTrial:
    """Models, optimizers and schedulers of a script that trains one trial; they stay as they are."""

    trials = 1

    def __init__(
        self, modules: Sequence[nn.Module], optimizers: Sequence[Optimizer], schedulers: Sequence[Any]
    ) -> None:
        self.modules, self.optimizers, self.schedulers = outermost(modules), optimizers, schedulers
        self.hyperparameters = of_process()

    def state_of(self, trial: int = 0) -> State:
        """Return the states of models, optimizers and schedulers, as copies, as `TrialGroup.state_of` has them."""
        return {
            "modules": [
                {key: own.detach().clone() for _, _, key, own in places_of(module)} for module in self.modules
            ],
            "numbers": [attributes_of(module, 0) for module in self.modules],
            "optimizers": [copy.deepcopy(optimizer_state(one, 0)) for one in self.optimizers],
            "schedulers": [copy.deepcopy(knowledge_of(one)) for one in self.schedulers],
            "hyperparameters": [dict(one) for one in self.hyperparameters],
        }

    def become(self, states: Sequence[State]) -> None:
        """Go on as the one trial with this state. Raises: CannotFuse for several."""
        if len(states) != 1:
            raise CannotFuse(f"trials: {len(states)} cannot go on as one that trains by itself")
        state = copy.deepcopy(states[0])
        with torch.no_grad():
            for module, found in zip(self.modules, state["modules"], strict=True):
                for _, _, key, own in places_of(module):
                    own.copy_(found[key])
        for module, numbers in zip(self.modules, state["numbers"], strict=True):
            for at, child in module.named_modules():
                child.__dict__.update(numbers[at])
        for hyperparameters, values in zip(self.hyperparameters, state["hyperparameters"], strict=True):
            hyperparameters.become(values)
        for optimizer, found in zip(self.optimizers, state["optimizers"], strict=True):
            _give_optimizer(optimizer, uncounted(found))
        for scheduler, found in zip(self.schedulers, state["schedulers"], strict=True):
            learn(scheduler, found)

    def keep(self, kept: Sequence[int]) -> None:
        """Keep the one trial."""


def _give_optimizer(optimizer: Optimizer, found: State) -> None:
    """Give an optimizer settings and state."""
    states = iter(found["state"])
    optimizer.state.clear()
    for group, settings in zip(optimizer.param_groups, found["settings"], strict=True):
        group.update(settings)
        for parameter in group["params"]:
            if state := next(states):
                optimizer.state[parameter] = state
