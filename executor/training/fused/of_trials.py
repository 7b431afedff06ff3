"""Values that trials have each for themselves, in nested lists and dictionaries: taken apart and put together."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from .errors import CannotFuse
from .trial_number import TrialNumber
from .trial_tensor import TrialTensor, plain_of, stack, trials_of


def of_trial(value: Any, trial: int | None) -> Any:
    """Return what one trial has of a value; what all have alike is as it is. Tensors, lists and so on are copies.

    None: what all have.
    """
    if isinstance(value, TrialTensor):
        return value if trial is None else plain_of(value, trial)
    if isinstance(value, TrialNumber):
        return value if trial is None else value.of(trial)
    return rebuilt(value, lambda part: of_trial(part, trial))


def together(values: Sequence[Any]) -> Any:
    """Return one value that stands for those of all trials. Numbers that are alike stay plain.

    Raises: CannotFuse, where trials have values of different kinds, or other values that differ.
    """
    first = values[0]
    if any(isinstance(value, (TrialNumber, TrialTensor)) for value in values):
        raise CannotFuse("state: it holds values of a group, and those of one trial are accepted")
    if all(isinstance(value, Tensor) for value in values):
        if any(value.shape != first.shape or value.dtype != first.dtype for value in values):
            kinds = ", ".join(dict.fromkeys(f"{tuple(value.shape)} of {value.dtype}" for value in values))
            raise CannotFuse(f"state: trials have tensors of different shapes or kinds: {kinds}")
        return stack([value.to(first.device) for value in values])
    if all(isinstance(value, Mapping) for value in values):
        if any(value.keys() != first.keys() for value in values):
            raise CannotFuse("state: trials have different parts, so they are not at the same place")
        return filled(first, {key: together([value[key] for value in values]) for key in first})
    if all(isinstance(value, (list, tuple)) for value in values):
        if any(len(value) != len(first) for value in values):
            raise CannotFuse("state: trials have lists of different length, so they are not at the same place")
        return filled(first, [together(parts) for parts in zip(*values, strict=True)])
    if all(value is first or _alike(value, first) for value in values):
        return first
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return TrialNumber(values)
    told = ", ".join(dict.fromkeys(repr(value) for value in values))
    raise CannotFuse(f"trials have {told}, which one group cannot have beside each other")


def counts_of(value: Any) -> set[int]:
    """Return of how many trials the numbers and tensors in a value are."""
    if isinstance(value, TrialNumber):
        return {len(value.values)}
    if isinstance(value, TrialTensor):
        return {trials_of(value)}
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return set[int]().union(*map(counts_of, parts))


def rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a list, tuple or dictionary of the same kind with changed parts; anything else as it is."""
    if isinstance(value, dict):
        return filled(value, {key: change(part) for key, part in value.items()})
    if isinstance(value, (list, tuple)):
        return filled(value, [change(part) for part in value])
    return value


def filled(like: Any, parts: Any) -> Any:
    """Return parts as the kind of list, tuple or dictionary that another one is."""
    if isinstance(like, Mapping):
        if type(like) is dict:
            return dict(parts)
        found: Any = copy.copy(like)  # `type(like)(parts)` is none for a defaultdict
        for key, part in parts.items():
            found[key] = part
        return found
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


def _alike(one: Any, other: Any) -> bool:
    kinds = (bool, int, float, str)
    if isinstance(one, kinds) and isinstance(other, kinds) and isinstance(one, bool) != isinstance(other, bool):
        return False  # 1 == True
    return bool(one == other)
