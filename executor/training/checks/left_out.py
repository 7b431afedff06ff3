"""Finds optimizers and schedulers that a script uses in its loop and has not given to `prepare`.

Their steps would count passes and not batches, and no checkpoint would hold their state.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ..state.prepared import Prepared
from ..variables.script_frames import script_objects

_GIVE_ALL = "make all of them before, and give them to coadapt.prepare"


def check_schedulers(prepared: Prepared) -> None:
    """Raise RuntimeError for a scheduler of a prepared optimizer that is not prepared itself."""
    known = {id(thing) for thing in _held_by([*prepared.schedulers, *prepared.users])}
    for scheduler in script_objects(LRScheduler):
        optimizer = getattr(scheduler, "optimizer", None)
        if id(scheduler) not in known and any(optimizer is one for one in prepared.optimizers):
            raise RuntimeError(
                f"the script's {type(scheduler).__name__} was not given to prepare, and would lose its place "
                f"whenever the job is moved or started again; {_GIVE_ALL}"
            )


def watch_optimizers(prepared: Prepared, batch: Callable[[], int | None]) -> None:
    """Raise RuntimeError as soon as an optimizer that is not prepared trains in the loop.

    One that is made for a batch may train what is made for that batch, too. `batch()` is the number of the
    running one; None outside of the loop.
    """
    accepted: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
    first: weakref.WeakKeyDictionary[torch.optim.Optimizer, int] = weakref.WeakKeyDictionary()

    def look(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if optimizer in accepted or (number := batch()) is None:
            return
        if _belongs(optimizer, prepared.optimizers):
            accepted.add(optimizer)
            return
        trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if not trained.isdisjoint(map(id, prepared.parameters())):
            raise RuntimeError(
                f"the script's {type(optimizer).__name__} was not given to prepare, and steps parameters of the "
                f"prepared model; {_GIVE_ALL}"
            )
        if first.setdefault(optimizer, number) != number:
            raise RuntimeError(
                f"the script's {type(optimizer).__name__} and what it trains were not given to prepare, so that "
                "every replica would train one of its own; give coadapt.prepare all models and optimizers"
            )

    register_optimizer_step_pre_hook(look)


def _belongs(optimizer: torch.optim.Optimizer, prepared: Iterable[torch.optim.Optimizer]) -> bool:
    """Return whether it is prepared, or a prepared one is made of it, or it is made around one."""
    inside = {id(thing) for thing in _held_by([optimizer])}
    return any(id(one) in inside or any(thing is optimizer for thing in _held_by([one])) for one in prepared)


def _held_by(things: Iterable[Any]) -> list[Any]:
    """Yield these and what they hold, in lists too."""
    found: list[Any] = []
    for thing in things:
        found.append(thing)
        for value in getattr(thing, "__dict__", {}).values():
            found += value if isinstance(value, list | tuple) else [value]
    return found
