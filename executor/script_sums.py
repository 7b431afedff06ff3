"""Sums that a script keeps over its samples or batches, and what they would be if it ran by itself.

Each replica adds up over its own part of the data. When replicas come and go, and when a state is saved, their
sums become what one process would have: those over samples are added, those over batches averaged. Replicas that
go on share them again. Which is which is seen from how they grow: by the samples of a part, by a count of some of
them, by its loss times its samples; or by 1, or the loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from .script_state import ATTRIBUTES, Leaf, leaves

# Parts of a pass that are looked at, in the first passes.
LOOKS = 8
PASSES = 3
_NUMBERS = (int, float)
TOLERANCE = 1e-3


class SampleSums:
    """Knows the paths of variables that are sums over samples, and of others that move with each part."""

    def __init__(self) -> None:
        self.over_samples: set[str] = set()
        self.moving: set[str] = set()
        self._others: set[str] = set()
        self._before: dict[str, Leaf] = {}
        self._looks = 0
        self._passes = 0

    @property
    def looks(self) -> bool:
        return self._passes <= PASSES and self._looks < LOOKS

    def begin_pass(self) -> None:
        self._passes += 1
        self._looks = 0

    def before_part(self) -> None:
        """The script is given its part of a batch next."""
        self._before = leaves(_NUMBERS) if self.looks else {}

    def after_part(self, samples: int, losses: Callable[[], Sequence[float]]) -> None:
        """The script is done with its part of so many samples; `losses()`: what its losses add up to over them."""
        if not self._before:
            return
        before, self._before = self._before, {}
        self._looks += 1
        grown = {
            path: leaf.value - before[path].value
            for path, leaf in leaves(_NUMBERS).items()
            if path in before and leaf.value != before[path].value
        }
        self.moving |= grown.keys()
        added = losses() if any(isinstance(growth, float) for growth in grown.values()) else ()
        for path, growth in grown.items():
            by_samples = grows_by_samples(growth, samples, added)
            if by_samples and path not in self._others:
                self.over_samples.add(path)
            elif by_samples is False:
                self.over_samples.discard(path)
                self._others.add(path)


def grows_by_samples(growth: float, samples: int, losses: Sequence[float]) -> bool | None:
    """Whether a sum that grew by `growth` with a part of `samples` samples is one over samples; None: cannot tell.

    Whole numbers that grow by more than 1 count samples or items of them. `losses`: what sums of a loss over the
    part's samples or items grow by.
    """
    if samples < 2 or not math.isfinite(growth):
        return None
    if isinstance(growth, int) or float(growth).is_integer():
        return True if growth > 1 else None if growth == 1 else False
    known = [loss for loss in losses if math.isfinite(loss)]
    return any(abs(growth - loss) <= TOLERANCE * abs(loss) for loss in known) if known else None


def as_alone(
    everyone: Sequence[Any], weights: Sequence[float], over_samples: set[str], scale: float = 1.0, path: str = ""
) -> Any:
    """What replicas' variables would be in one process.

    `weights`: samples of each replica. `scale`: replicas that there were to those that are here. Whole numbers
    that differ are counts, and become known as sums over samples.
    """
    first = everyone[0]
    kind = type(first)
    if any(type(other) is not kind for other in everyone):
        return first
    if kind in (int, float) or isinstance(first, torch.Tensor | np.ndarray | np.generic):
        return _number_alone(everyone, weights, over_samples, scale, path)
    if kind is dict and all(other.keys() == first.keys() for other in everyone):
        is_object = ATTRIBUTES in first
        return {
            key: as_alone(
                [other[key] for other in everyone],
                weights,
                over_samples,
                scale,
                path if is_object else f"{path}/{key}",
            )
            for key in first
        }
    if kind in (list, tuple) and all(len(other) == len(first) for other in everyone):
        return kind(
            as_alone([other[i] for other in everyone], weights, over_samples, scale, f"{path}/{i}")
            for i in range(len(first))
        )
    return first


def _number_alone(
    everyone: Sequence[Any], weights: Sequence[float], over_samples: set[str], scale: float, path: str
) -> Any:
    first = everyone[0]
    if any(getattr(other, "shape", ()) != getattr(first, "shape", ()) for other in everyone):
        return first
    alike = all(_equal(first, other) for other in everyone)
    if not alike and _is_whole(first):
        over_samples.add(path)
    if path in over_samples:
        total = sum(everyone[1:], first)
        return total if scale == 1.0 else _like(first, total * scale)
    if alike or getattr(first, "dtype", None) == torch.bool:
        return first
    whole = math.fsum(weights)
    return _like(first, sum(value * (weight / whole) for value, weight in zip(everyone, weights, strict=True)))


def shared(value: Any, over_samples: set[str], rank: int, replicas: int, path: str = "") -> Any:
    """A replica's share of variables as one process has them."""
    if replicas == 1:
        return value
    kind = type(value)
    if path in over_samples:
        if kind is int:
            return value // replicas + (rank < value % replicas)
        return _like(value, value / replicas) if not _is_whole(value) else value // replicas
    if kind is dict:
        is_object = ATTRIBUTES in value
        return {
            key: shared(item, over_samples, rank, replicas, path if is_object else f"{path}/{key}")
            for key, item in value.items()
        }
    if kind in (list, tuple):
        return kind(shared(item, over_samples, rank, replicas, f"{path}/{i}") for i, item in enumerate(value))
    return value


def _is_whole(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not value.is_floating_point() and value.dtype is not torch.bool
    if isinstance(value, np.ndarray | np.generic):
        return np.issubdtype(value.dtype, np.integer)
    return isinstance(value, int) and not isinstance(value, bool)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and bool(torch.equal(a, b.to(a.device)))
    if isinstance(a, np.ndarray | np.generic):
        return bool(np.array_equal(a, b, equal_nan=np.issubdtype(a.dtype, np.floating)))
    return a == b or (a != a and b != b)


def _like(first: Any, value: Any) -> Any:
    """`value` in the type of `first`."""
    if isinstance(first, torch.Tensor):
        return value.to(first.dtype)
    if isinstance(first, np.ndarray | np.generic):
        return value.astype(first.dtype)
    return round(value) if isinstance(first, int) else value
