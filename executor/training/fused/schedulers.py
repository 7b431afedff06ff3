"""LR schedulers that look at a metric, for each trial by itself. All others only compute with numbers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .of_trials import of_trial, together


def step_each(scheduler: Any, trials: Callable[[], int]) -> None:
    """Let `scheduler.step` decide for each trial alone, by its own metric.

    Args:
        trials: returns how many there are now.
    """
    kind = type(scheduler)

    def step(*args: Any, **kwargs: Any) -> None:
        groups = scheduler.optimizer.param_groups
        rates = [group["lr"] for group in groups]
        own = {name: value for name, value in vars(scheduler).items() if name not in ("optimizer", "step")}
        after, lrs = list[dict[str, Any]](), list[list[float]]()
        for trial in range(trials()):
            alone = object.__new__(kind)
            alone.__dict__.update(of_trial(own, trial))
            alone.optimizer = SimpleNamespace(param_groups=[{"lr": of_trial(lr, trial)} for lr in rates])
            kind.step(alone, *of_trial(args, trial), **of_trial(kwargs, trial))
            lrs.append([group["lr"] for group in alone.optimizer.param_groups])
            del alone.__dict__["optimizer"]
            after.append(alone.__dict__)
        scheduler.__dict__.update(together(after))
        for group, values in zip(groups, zip(*lrs, strict=True), strict=True):
            group["lr"] = together(values)

    scheduler.step = step
