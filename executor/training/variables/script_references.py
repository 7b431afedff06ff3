"""Objects that each process has of its own: another process is told which one a variable holds, not what it is.

They are known by where they stood when training began, and functions by their names.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, Dataset, Sampler

from .script_classes import NotMade, named
from .script_frames import holdings_of, script_places

REFERENCE = "__coadapt_reference__"  # stands before where an object is found
OTHER = "__coadapt_other__"  # stands before a description of a function, model or optimizer that training has made
_SWITCHED = (torch.nn.Module, torch.optim.Optimizer)
_REFERRED = (*_SWITCHED, LRScheduler, torch.amp.GradScaler, DataLoader, Dataset, Sampler, type, Enum)


@dataclass
class References:
    """Refers to objects by `paths`: where each stood when training began, by id. `_objects` keeps them."""

    paths: dict[int, str] = field(default_factory=dict)
    _objects: dict[str, Any] = field(default_factory=dict)
    _standing: dict[str, bool] = field(default_factory=dict)

    def note(self, path: str, value: Any) -> None:
        """Note that an object stands here when training begins."""
        if id(value) not in self.paths:
            self.paths[id(value)] = path
            self._objects[path] = value

    def is_at(self, path: str, value: Any) -> bool:
        """Return whether a variable still holds, up to this path, what it held when training began."""
        if path not in self._standing:
            self._standing[path] = _at(path) is value
        return self._standing[path]

    def look_again(self) -> None:
        self._standing.clear()

    def to(self, value: Any) -> dict[str, str] | None:
        """Return what stands for an object; None where no other process has it."""
        name = _name_of(value)
        if name is not None and _named(name) is value:
            return {REFERENCE: name}
        path = self.paths.get(id(value))
        return None if path is None else {REFERENCE: path}

    def found(self, reference: str) -> Any:
        value = self._objects.get(reference)
        if value is None:
            value = _named(reference)
        if value is None:
            raise NotMade(f"{reference} is not found here")
        return value


def is_referred(value: Any) -> bool:
    """Return whether it is of a kind that is told by a reference."""
    return isinstance(value, _REFERRED) or inspect.isroutine(value)


def other(value: Any) -> dict[str, str] | None:
    """Return what stands for a function, model or optimizer that no other process has; None for all else."""
    return {OTHER: what(value)} if isinstance(value, _SWITCHED) or inspect.isroutine(value) else None


def what(value: Any) -> str:
    """Return what something is, for people, and to tell whether it became another one."""
    return str(value.__qualname__ if inspect.isroutine(value) else type(value).__qualname__)


def must_be(mine: Any, told: str) -> Any:
    """Return `mine`, or what the script has elsewhere where `mine` is not what is referred to."""
    if what(mine) == told:
        return mine
    here = "" if mine is None else f", not the {what(mine)} that the script begins with"
    raise NotMade(f"it holds {told}{here}; make it before the loop, under a name of its own")


def _name_of(value: Any) -> str | None:
    if isinstance(value, Enum):
        return f"{type(value).__module__}:{type(value).__qualname__}.{value.name}"
    if not inspect.isroutine(value) and not isinstance(value, type):
        return None
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    return f"{module}:{name}" if module and name else None


def _named(name: str) -> Any:
    module, _, path = name.partition(":")
    return next((one for one in named(module, path) if one is not None), None)


def _at(path: str) -> Any:
    """Return what the script has at a path of variables, keys and attributes."""
    for place in script_places():
        if path.startswith(f"{place.path}/"):
            value: Any = place.variables
            for part in path.removeprefix(f"{place.path}/").split("/"):
                value = _part(value, part)
            return value
    return None


def _part(value: Any, name: str) -> Any:
    if isinstance(value, list | tuple | deque):
        return value[int(name)] if name.isdigit() and int(name) < len(value) else None
    held = value if isinstance(value, Mapping) else holdings_of(value)
    if held is None:
        return None
    return next((item for key, item in held.items() if str(key) == name), None)
