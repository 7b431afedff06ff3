"""LR schedulers of a group of trials: what they know, and steps that trials take by themselves.

Most only compute with numbers. Where one decides, as `ReduceLROnPlateau` does by a metric, each trial does alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from .errors import CannotFuse
from .of_trials import of_trial, together
from .trial_tensor import trials_of

NOT_SETTINGS = ("params", "foreach", "fused")  # the last two say how torch steps, and change nothing
PARTS = "_schedulers"  # of SequentialLR and ChainedScheduler
State = dict[str, Any]


def knowledge_of(scheduler: Any) -> State:
    """Return what a scheduler and its parts know, but the optimizer and functions. Lists are those it has."""
    known = {
        name: value for name, value in vars(scheduler).items() if name != "optimizer" and not _has_function(value)
    }
    return {**known, PARTS: [knowledge_of(part) for part in known[PARTS]]} if PARTS in known else known


def learn(scheduler: Any, known: Mapping[str, Any]) -> None:
    """Let a scheduler and its parts know this."""
    for part, own in zip(vars(scheduler).get(PARTS, ()), known.get(PARTS, ()), strict=True):
        learn(part, own)
    scheduler.__dict__.update({name: value for name, value in known.items() if name != PARTS})
    if hasattr(scheduler, "_init_scale_fn"):  # CyclicLR binds its factor to a function
        scheduler._init_scale_fn()


def step_each(scheduler: Any) -> None:
    """Let `scheduler.step` decide for each trial alone wherever trials differ."""
    kind: Any = type(scheduler)
    scheduler.__class__ = _of_trials(kind)  # its `state_dict` stays as it is


@cache
def _of_trials(kind: Any) -> type[LRScheduler]:
    class OfTrials(kind):
        def step(self, *args: Any, **kwargs: Any) -> None:
            known, settings = of_trial(knowledge_of(self), None), settings_of(self.optimizer)
            try:
                super().step(*args, **kwargs)
            except CannotFuse:
                learn(self, known)
                for group, was in zip(self.optimizer.param_groups, settings, strict=True):
                    group.update(was)
                _step_alone(self, kind, args, kwargs)

    OfTrials.__name__, OfTrials.__qualname__ = kind.__name__, kind.__qualname__
    return OfTrials


def settings_of(optimizer: Optimizer) -> list[State]:
    """Return the settings of each parameter group."""
    return [
        {name: value for name, value in group.items() if name not in NOT_SETTINGS}
        for group in optimizer.param_groups
    ]


def _step_alone(scheduler: Any, kind: type[LRScheduler], args: Any, kwargs: Any) -> None:
    groups, known = scheduler.optimizer.param_groups, knowledge_of(scheduler)
    settings = settings_of(scheduler.optimizer)
    after, found = list[State](), list[list[State]]()
    for trial in range(trials_of(groups[0]["params"][0])):
        own = of_trial(settings, trial)
        alone = _alone(scheduler, kind, SimpleNamespace(param_groups=own, step=scheduler.optimizer.step))
        alone.optimizer._opt_called = True  # so that torch does not warn
        learn(alone, of_trial(known, trial))
        alone.step(*of_trial(args, trial), **of_trial(kwargs, trial))
        after.append(knowledge_of(alone))
        found.append(own)
    learn(scheduler, together(after))
    for group, values in zip(groups, together(found), strict=True):
        group.update(values)


def _alone(scheduler: Any, kind: type[LRScheduler], optimizer: Any) -> Any:
    """Return a scheduler with the functions of this one, which steps another optimizer."""
    alone = object.__new__(kind)
    alone.__dict__.update(vars(scheduler), optimizer=optimizer)
    if PARTS in vars(scheduler):
        alone.__dict__[PARTS] = [_alone(part, type(part), optimizer) for part in vars(scheduler)[PARTS]]
    return alone


def _has_function(value: Any) -> bool:
    parts = value if isinstance(value, (list, tuple)) else [value]
    return any(isinstance(part, Callable) for part in parts)  # type: ignore[arg-type]
