"""Samples whose random draws depend on the sample's place in the epoch, and on nothing else.

A loader worker draws augmentation from generators of its own. Seeded once per worker, they would give other draws
with another number of workers. Here each sample is given a seed, so that any worker draws the same for it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils.data import Subset


class Draw(NamedTuple):
    """The index of a sample, or what stands for it, and the seed of its random draws."""

    index: Any
    seed: int


def draws(indices: Iterable[Any], places: Iterable[int], seed: int) -> list[Draw]:
    """Return the draws of samples at some places of an epoch whose order has a seed."""
    return [Draw(index, seed_of(seed, place)) for index, place in zip(indices, places, strict=True)]


def seed_of(seed: int, place: int) -> int:
    """Return the seed of a sample, 0 to 2**63 - 1, the same in every process."""
    return hash((seed, place)) & (2**63 - 1)


def seeded(dataset: Any) -> Any:
    """Return a data set that takes draws in place of indices; else it is the script's own."""
    # What reads several samples in one go draws for all of them at once. A subset would do well without.
    if type(dataset) is not Subset and callable(getattr(dataset, "__getitems__", None)):
        return _SeededLists(dataset)
    return _Seeded(dataset)


class _Seeded:
    def __init__(self, real: Any) -> None:
        self.__dict__["_real"] = real

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._real)

    def __getitem__(self, draw: Draw) -> Any:
        _seed(draw.seed)
        return self._real[draw.index]

    def __len__(self) -> int:
        return len(self._real)

    def __getattr__(self, name: str) -> Any:
        if name == "__getitems__":
            raise AttributeError(name)
        return getattr(self.__dict__["_real"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)

    def __reduce__(self) -> Any:
        return seeded, (self._real,)


class _SeededLists(_Seeded):
    def __getitems__(self, given: Sequence[Draw]) -> Any:
        if given:
            _seed(given[0].seed)
        return self._real.__getitems__([draw.index for draw in given])


def _seed(seed: int) -> None:
    random.seed(seed)
    torch.default_generator.manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)
