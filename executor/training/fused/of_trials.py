"""Values that trials have each for themselves, in nested lists and dictionaries: taken apart and put together."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from .errors import CannotFuse
from .trial_number import TrialNumber, TrialSetting
from .trial_tensor import TrialTensor, plain_of, stack


def of_trial(value: Any, trial: int) -> Any:
    """Return what one trial has of a value; what all have alike is as it is. Tensors are copies."""
    if isinstance(value, TrialTensor):
        return plain_of(value, trial)
    if isinstance(value, TrialNumber):
        return value.of(trial)
    return _rebuilt(value, lambda part: of_trial(part, trial))


def together(values: Sequence[Any], numbers: type[TrialNumber] = TrialSetting) -> Any:
    """Return one value that stands for those of all trials. Numbers that are alike stay plain.

    Raises: CannotFuse, where trials have values of different kinds, or other values that differ.
    """
    first = values[0]
    if isinstance(first, Tensor):
        return stack(values)
    if isinstance(first, Mapping):
        if any(value.keys() != first.keys() for value in values):
            raise CannotFuse("state: trials have different parts, so they are not at the same place")
        return _filled(first, {key: together([value[key] for value in values], numbers) for key in first})
    if isinstance(first, (list, tuple)):
        if any(len(value) != len(first) for value in values):
            raise CannotFuse("state: trials have lists of different length, so they are not at the same place")
        return type(first)(together(parts, numbers) for parts in zip(*values, strict=True))
    if all(value is first or value == first for value in values):
        return first
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return numbers(values)
    told = ", ".join(dict.fromkeys(repr(value) for value in values))
    raise CannotFuse(f"trials have {told}, which one group cannot have beside each other")


def _rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return _filled(value, {key: change(part) for key, part in value.items()})
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(change(part) for part in value)
    return value


def _filled(like: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """Return parts in a dictionary of the same class, such as a Counter."""
    if type(like) is dict or not isinstance(like, dict):
        return parts
    made = copy.copy(like)
    made.update(parts) if not isinstance(made, Counter) else dict.update(made, parts)
    return made
