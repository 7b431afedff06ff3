"""A group of trials that trains as one: who is in it may change between two steps.

The script's own objects stay the same ones. What they hold stands for all trials: parameters and buffers are
stacked, and settings of optimizers are numbers of trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from . import roster
from .errors import CannotFuse
from .of_trials import of_trial, together
from .schedulers import step_each
from .trial_number import TrialNumber, TrialSetting
from .trial_tensor import parameter_of, stack

FUSED = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)
NOT_SETTINGS = ("params", "foreach", "fused")  # the last two say how torch steps, and change nothing
PARTS = "_schedulers"  # of a scheduler that consists of others
STEP = "step"  # in the state of Adam
State = dict[str, Any]  # of one trial: what its own script would have without the others


class TrialGroup:
    """Models, optimizers and schedulers of a script, for all trials of a group.

    All trials begin with the model's parameters as they are. A model that is part of another one counts in that.

    Raises: CannotFuse, for what cannot be trained as one.
    """

    def __init__(
        self, modules: Sequence[nn.Module], optimizers: Sequence[Optimizer], schedulers: Sequence[Any], trials: int
    ) -> None:
        self.modules, self.optimizers, self.schedulers = outermost(modules), optimizers, with_parts(schedulers)
        self.trials = trials
        own = {id(parameter) for module in modules for parameter in module.parameters()}
        for optimizer in optimizers:
            _check(optimizer, own)
        for scheduler in self.schedulers:
            if isinstance(scheduler, ReduceLROnPlateau):
                step_each(scheduler, lambda: self.trials)
        self.become([self._first_state(trial) for trial in range(trials)])
        for optimizer in optimizers:
            optimizer.register_step_pre_hook(_as_settings)

    def state_of(self, trial: int) -> State:
        """Return what one trial has: the states of its models, optimizers and schedulers, as copies.

        A script that trains this trial alone could load them.
        """
        return {
            "modules": [
                {name: of_trial(tensor, trial) for name, tensor in _tensors(module)} for module in self.modules
            ],
            **self._rest_of(trial),
        }

    def become(self, states: Sequence[State]) -> None:
        """Let the group consist of trials with these states, which are at the same place of training.

        So trials are dropped, added from another group or from a checkpoint, and put in another order.

        Raises: CannotFuse, where they cannot train as one; nothing is changed then.
        """
        if not states:
            raise ValueError("trials: a group has at least one")
        schedulers = [together([state["schedulers"][i] for state in states]) for i in range(len(self.schedulers))]
        optimizers = [
            uncounted(together([state["optimizers"][i] for state in states])) for i in range(len(self.optimizers))
        ]
        new = self._stacked([state["modules"] for state in states])
        self.trials = len(states)
        for module in self.modules:
            for holder, name, _, own in places_of(module):
                holder[name] = new[id(own)]
        for optimizer, found in zip(self.optimizers, optimizers, strict=True):
            give_optimizer(optimizer, found, new)
        for scheduler, found in zip(self.schedulers, schedulers, strict=True):
            scheduler.__dict__.update(found)

    def keep(self, kept: Sequence[int]) -> None:
        """Drop all trials but these, which then are in this order.

        What the script holds of all trials, such as sums over an epoch, is cut to these when it is next used.
        """
        before, states = self.trials, [self.state_of(trial) for trial in kept]
        roster.dropped(before, kept)
        self.become(states)

    def _first_state(self, trial: int) -> State:
        """Return the state of a trial before its first step; tensors are those of the model, for all."""
        return {"modules": [dict(_tensors(module)) for module in self.modules], **self._rest_of(trial)}

    def _rest_of(self, trial: int) -> State:
        return {
            "optimizers": [optimizer_state(optimizer, trial) for optimizer in self.optimizers],
            "schedulers": [of_trial(scheduler_state(scheduler), trial) for scheduler in self.schedulers],
        }

    def _stacked(self, states: Sequence[Sequence[dict[str, Tensor]]]) -> dict[int, Tensor]:
        """Return the parameters and buffers of all trials, by the id of what they replace."""
        new: dict[int, Tensor] = {}
        for at, module in enumerate(self.modules):
            for _, _, key, own in places_of(module):
                if id(own) in new:
                    continue
                values = [state[at][key] for state in states]
                if any(value.shape != values[0].shape for value in values):
                    raise CannotFuse(f"{key}: trials have it in different shapes")
                is_parameter = isinstance(own, nn.Parameter)
                new[id(own)] = parameter_of(values, own.requires_grad) if is_parameter else stack(values)
        return new


def outermost(modules: Sequence[nn.Module]) -> list[nn.Module]:
    """Return models, each once, without those that are parts of others."""
    once = list({id(module): module for module in modules}.values())
    inside = {id(part) for module in once for part in module.modules() if part is not module}
    return [module for module in once if id(module) not in inside]


def with_parts(schedulers: Sequence[Any]) -> list[Any]:
    """Return schedulers, and those of which some consist, such as `SequentialLR`; each once."""
    found: dict[int, Any] = {}
    for scheduler in schedulers:
        for one in (scheduler, *with_parts(getattr(scheduler, PARTS, ()))):
            found[id(one)] = one
    return list(found.values())


def optimizer_state(optimizer: Optimizer, trial: int) -> State:
    """Return what an optimizer has of a trial: settings of its groups, and the state of each parameter."""
    of = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    settings = [
        {name: value for name, value in group.items() if name not in NOT_SETTINGS}
        for group in optimizer.param_groups
    ]
    return {
        "settings": of_trial(settings, trial),
        "defaults": of_trial(dict(optimizer.defaults), trial),
        "state": [of_trial(_counted(optimizer.state.get(parameter, {})), trial) for parameter in of],
    }


def scheduler_state(scheduler: Any) -> dict[str, Any]:
    """Return what a scheduler knows, but its optimizer, its functions and other schedulers."""
    known = vars(scheduler).items()
    return {name: value for name, value in known if name not in ("optimizer", PARTS) and not _has_function(value)}


def _check(optimizer: Optimizer, own: set[int]) -> None:
    if type(optimizer) not in FUSED:
        known = ", ".join(one.__name__ for one in FUSED)
        raise CannotFuse(f"optimizer: {type(optimizer).__name__} cannot be fused; {known} of torch.optim can")
    for group in optimizer.param_groups:
        if any(id(parameter) not in own for parameter in group["params"]):
            raise CannotFuse("optimizer: it steps parameters of no model that `prepare` was given")
        for name in ("amsgrad", "maximize", "nesterov", "differentiable", "capturable"):
            if isinstance(group.get(name), TrialNumber):
                raise CannotFuse(f"optimizer: {name} differs between trials, which cannot be fused")


def _as_settings(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    """Let numbers of trials that a script has put into groups count as settings."""
    for group in optimizer.param_groups:
        for name, value in group.items():
            if isinstance(value, TrialNumber) and not isinstance(value, TrialSetting):
                group[name] = TrialSetting(value.values)


def give_optimizer(optimizer: Optimizer, found: State, new: dict[int, Tensor]) -> None:
    """Let an optimizer step new parameters, by the id of what they replace, with these settings and this state."""
    states = iter(found["state"])
    optimizer.state.clear()
    optimizer.defaults.update(found["defaults"])
    for group, settings in zip(optimizer.param_groups, found["settings"], strict=True):
        group["params"] = [new[id(own)] for own in group["params"]]
        group.update(settings, foreach=False, fused=None)
        for parameter in group["params"]:
            if state := next(states):
                optimizer.state[parameter] = state


def _counted(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a parameter with its number of steps as a number, which is one for all trials."""
    counts = isinstance(state.get(STEP), Tensor)
    return {**state, STEP: state[STEP].item()} if counts else dict(state)


def uncounted(found: State) -> State:
    """Return what an optimizer knows as torch has it. Raises: CannotFuse, if trials have taken other steps."""
    states = []
    for state in found["state"]:
        if isinstance(state.get(STEP), TrialNumber):
            raise CannotFuse(f"state: trials have taken {state[STEP]} steps, so they are not at the same place")
        states.append({**state, STEP: torch.tensor(float(state[STEP]))} if STEP in state else state)
    return {**found, "state": states}


def _has_function(value: Any) -> bool:
    parts = value if isinstance(value, (list, tuple)) else [value]
    return any(isinstance(part, Callable) for part in parts)  # type: ignore[arg-type]


def places_of(module: nn.Module) -> Iterator[tuple[dict[str, Any], str, str, Tensor]]:
    """Yield where each parameter and buffer is: its holder, its name there, its name in the model, and itself."""
    for prefix, child in module.named_modules():
        for holder in (child._parameters, child._buffers):
            for name, own in list(holder.items()):
                if own is not None:
                    yield holder, name, f"{prefix}.{name}" if prefix else name, own


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return ((key, own) for _, _, key, own in places_of(module))
