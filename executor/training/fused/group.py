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

from . import direct_rules as _direct_rules  # noqa: F401  # operations of a group run by them
from . import roster
from .errors import CannotFuse
from .hyperparameters import of_process
from .of_trials import counts_of, of_trial, together
from .schedulers import knowledge_of, learn, settings_of, step_each
from .stacked_step import give_back, step_stacks
from .trial_number import TrialNumber, TrialSetting
from .trial_tensor import TrialTensor, parameter_of, stack

FUSED = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)
STEP = "step"  # in the state of Adam
State = dict[str, Any]  # of one trial: what its own script would have without the others


class TrialGroup:
    """Models, optimizers and schedulers of a script, for all trials of a group.

    All trials begin with the model's parameters as they are. A module that is given twice, or is a part of
    another given one, counts once.

    Raises: CannotFuse, for what cannot be trained as one.
    """

    def __init__(
        self, modules: Sequence[nn.Module], optimizers: Sequence[Optimizer], schedulers: Sequence[Any], trials: int
    ) -> None:
        self.modules, self.optimizers, self.schedulers = outermost(modules), list(optimizers), list(schedulers)
        self.trials = trials
        self.hyperparameters = [one for one in of_process() if counts_of(one) <= {trials}]
        self._check_counts()
        own = {id(parameter) for module in self.modules for parameter in module.parameters()}
        for optimizer in optimizers:
            _check(optimizer, own)
        self.become([self._state(trial, lambda tensor: tensor) for trial in range(trials)])
        for scheduler in schedulers:
            step_each(scheduler)
        for optimizer in optimizers:
            step = _Step()
            optimizer.register_step_pre_hook(step.before)
            optimizer.register_step_post_hook(step.after)

    def state_of(self, trial: int) -> State:
        """Return what one trial has: the states of its models, optimizers and schedulers, as copies.

        A script that trains this trial alone could load them.
        """
        return self._state(trial, lambda tensor: of_trial(tensor, trial))

    def become(self, states: Sequence[State]) -> None:
        """Let the group consist of trials with these states, which are at the same place of training.

        So trials are dropped, added from another group or from a checkpoint, and put in another order.

        Raises: CannotFuse, where they cannot train as one; nothing is changed then.
        """
        if not states:
            raise ValueError("trials: a group has at least one")
        for state in states:
            self._check_form(state)
        found = {key: together([state[key] for state in states]) for key in states[0] if key != "modules"}
        optimizers = [uncounted(one) for one in found["optimizers"]]
        places = [(at, *place) for at, module in enumerate(self.modules) for place in places_of(module)]
        new = _stacked(places, [state["modules"] for state in states])

        self.trials = len(states)  # from here on nothing raises
        for _, holder, name, _, own in places:
            holder[name] = new[id(own)]
        for module, numbers in zip(self.modules, found["numbers"], strict=True):
            for at, child in module.named_modules():
                child.__dict__.update(numbers[at])
        for hyperparameters, values in zip(self.hyperparameters, found["hyperparameters"], strict=True):
            hyperparameters.become(values)
        for optimizer, one in zip(self.optimizers, optimizers, strict=True):
            _set_optimizer(optimizer, new, one)
        for scheduler, known in zip(self.schedulers, found["schedulers"], strict=True):
            learn(scheduler, known)

    def keep(self, kept: Sequence[int]) -> None:
        """Drop all trials but these, which then are in this order.

        What the script holds of all trials, such as sums over an epoch, is cut to these when it is next used.
        """
        before, states = self.trials, [self.state_of(trial) for trial in kept]
        roster.dropped(before, kept)
        self.become(states)

    def _state(self, trial: int, of: Callable[[Tensor], Tensor]) -> State:
        """Return the state of a trial, with what `of` gives of each parameter and buffer."""
        return {
            "modules": [{name: of(tensor) for name, tensor in _tensors(module)} for module in self.modules],
            "numbers": [attributes_of(module, trial) for module in self.modules],
            "optimizers": [optimizer_state(optimizer, trial) for optimizer in self.optimizers],
            "schedulers": [of_trial(knowledge_of(scheduler), trial) for scheduler in self.schedulers],
            "hyperparameters": [of_trial(dict(one), trial) for one in self.hyperparameters],
        }

    def _check_counts(self) -> None:
        """Raise CannotFuse, if the script's objects already have values of another number of trials."""
        settings = [settings_of(optimizer) for optimizer in self.optimizers]
        known = [knowledge_of(scheduler) for scheduler in self.schedulers]
        parts = [vars(part) for module in self.modules for part in module.modules()]
        tensors = [tensor for module in self.modules for _, tensor in _tensors(module)]
        for count in counts_of([settings, known, *([*part.values()] for part in parts)]):
            if count != self.trials:
                raise CannotFuse(f"prepare: a number is of {count} trials, and the group has {self.trials}")
        if counts_of(tensors):
            raise CannotFuse("prepare: a model is already trained by a group of trials")

    def _check_form(self, state: State) -> None:
        """Raise CannotFuse, if a state is not one of this script."""
        own = self._state(0, lambda tensor: tensor)
        for part, known in own.items():
            if len(state.get(part, ())) != len(known):
                raise CannotFuse(
                    f"state: it has {len(state.get(part, ()))} {part}, and this script has {len(known)}"
                )
        for part in ("modules", "numbers", "schedulers", "hyperparameters"):
            for given, known in zip(state[part], own[part], strict=True):
                if given.keys() != known.keys():
                    strange = sorted(map(str, given.keys() ^ known.keys()))[0]
                    raise CannotFuse(f"state: {strange} of the {part} is not both in it and in this script")
        for given, known in zip(state["modules"], own["modules"], strict=True):
            for name, tensor in known.items():
                shape = tuple(tensor.shape)
                if isinstance(given[name], TrialTensor):
                    raise CannotFuse(f"state: {name} is of a group, and a tensor of one trial is accepted")
                if tuple(given[name].shape) != shape or given[name].dtype != tensor.dtype:
                    had = f"{tuple(given[name].shape)} of {given[name].dtype}"
                    raise CannotFuse(f"state: {name} is {had}, and this script has {shape} of {tensor.dtype}")
        for given, known in zip(state["optimizers"], own["optimizers"], strict=True):
            if any(len(given[part]) != len(known[part]) for part in ("settings", "state")):
                raise CannotFuse("state: an optimizer of it steps other parameters than that of this script")


def outermost(modules: Sequence[nn.Module]) -> list[nn.Module]:
    """Return modules without those that were given before or are parts of another one."""
    found: list[nn.Module] = []
    for module in dict.fromkeys(modules):
        if not any(module is part for other in modules if other is not module for part in other.modules()):
            found.append(module)
    return found


def attributes_of(module: nn.Module, trial: int) -> dict[str, dict[str, float]]:
    """Return the numbers that each part of a model has as attributes, such as the rate of a dropout."""
    return {
        at: {
            name: of_trial(value, trial)
            for name, value in vars(child).items()
            if isinstance(value, (int, float, TrialNumber)) and not isinstance(value, bool)
        }
        for at, child in module.named_modules()
    }


def optimizer_state(optimizer: Optimizer, trial: int) -> State:
    of = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return {
        "settings": of_trial(settings_of(optimizer), trial),
        "defaults": of_trial(dict(optimizer.defaults), trial),
        "state": [of_trial(_counted(optimizer.state.get(parameter, {})), trial) for parameter in of],
    }


def _stacked(places: Sequence[tuple[int, Any, str, str, Tensor]], states: Sequence[Any]) -> dict[int, Tensor]:
    """Return parameters and buffers of all trials, by the id of what they replace."""
    new: dict[int, Tensor] = {}
    for at, _, _, key, own in places:
        if id(own) not in new:
            values = [state[at][key].to(own.device) for state in states]
            new[id(own)] = parameter_of(values, own.requires_grad) if _is_parameter(own) else stack(values)
    return new


def _is_parameter(tensor: Tensor) -> bool:
    return isinstance(tensor, nn.Parameter)


class _Step:
    """What is done around a step of an optimizer."""

    def __init__(self) -> None:
        self._taken: list[tuple[Tensor, Tensor]] = []

    def before(self, optimizer: Optimizer, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Let settings be numbers that an optimizer takes, also those set by hand, and step what is usual."""
        for group in optimizer.param_groups:
            momentum = group.get("momentum")
            mixed = isinstance(momentum, TrialNumber) and 0 in momentum.values and any(momentum.values)
            if mixed and group["dampening"] != 0:
                raise CannotFuse(
                    f"optimizer: momentum is {momentum}; with dampening it is 0 for all trials or none"
                )
        _set_kind(optimizer, TrialSetting)
        if not any(one is not None for one in (*args[1:], *kwargs.values())):  # no closure, which makes gradients
            self._taken = step_stacks(optimizer)

    def after(self, optimizer: Optimizer, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        give_back(self._taken)
        self._taken = []
        _set_kind(optimizer, TrialNumber)


def _set_kind(optimizer: Optimizer, kind: type[TrialNumber]) -> None:
    for group in optimizer.param_groups:
        for name, value in group.items():
            if isinstance(value, (TrialNumber, tuple)):
                group[name] = _of_kind(value, kind)


def _of_kind(value: Any, kind: type[TrialNumber]) -> Any:
    if isinstance(value, TrialNumber):
        return kind(value.values)
    return tuple(_of_kind(part, kind) for part in value) if isinstance(value, tuple) else value


def _check(optimizer: Optimizer, own: set[int]) -> None:
    if type(optimizer) not in FUSED:
        known = ", ".join(one.__name__ for one in FUSED)
        raise CannotFuse(f"optimizer: {type(optimizer).__name__} cannot be fused; {known} of torch.optim can")
    for group in optimizer.param_groups:
        if any(id(parameter) not in own for parameter in group["params"]):
            raise CannotFuse("optimizer: it steps parameters of no model that `prepare` was given")
        if tensors := [name for name, value in group.items() if isinstance(value, Tensor)]:
            raise CannotFuse(f"optimizer: {tensors[0]} is a tensor, and in a group of trials a number is accepted")
        for name in ("amsgrad", "maximize", "nesterov", "differentiable", "capturable"):
            if isinstance(group.get(name), TrialNumber):
                raise CannotFuse(f"optimizer: {name} differs between trials, which cannot be fused")


def _set_optimizer(optimizer: Optimizer, new: dict[int, Tensor], found: State) -> None:
    """Let an optimizer step the new parameters, with these settings and this state."""
    states = iter(found["state"])
    optimizer.state.clear()
    optimizer.defaults.update(found["defaults"])
    for group, settings in zip(optimizer.param_groups, found["settings"], strict=True):
        group["params"] = [new[id(own)] for own in group["params"]]
        group.update(settings, foreach=False, fused=None)
        for parameter in group["params"]:
            if state := next(states):
                at = parameter.device
                own = {
                    name: v.to(at) if isinstance(v, TrialTensor) and v.device != at else v
                    for name, v in state.items()
                }
                optimizer.state[parameter] = own


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


def places_of(module: nn.Module) -> Iterator[tuple[dict[str, Any], str, str, Tensor]]:
    """Yield where each parameter and buffer is: its holder, its name there, its name in the model, and itself."""
    for prefix, child in module.named_modules():
        for holder in (child._parameters, child._buffers):
            for name, own in list(holder.items()):
                if own is not None:
                    yield holder, name, f"{prefix}.{name}" if prefix else name, own


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return ((key, own) for _, _, key, own in places_of(module))
