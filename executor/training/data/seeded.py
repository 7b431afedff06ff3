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

from .input_pace import InputPace


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


def seeded(dataset: Any, pace: InputPace | None = None) -> Any:
    """Return a data set that takes draws in place of indices; else it is the script's own.

    `pace`: at which samples are there; None: as soon as they are.
    """
    # What reads several samples in one go draws for all of them at once. A subset would do well without.
    if type(dataset) is not Subset and callable(getattr(dataset, "__getitems__", None)):
        return _SeededLists(dataset, pace)
    return _Seeded(dataset, pace)


class _Seeded:
    def __init__(self, real: Any, pace: InputPace | None) -> None:
        self.__dict__.update(_real=real, _pace=pace)

    @property  # type: ignore[misc]  # so that isinstance sees the real class
    def __class__(self) -> Any:
        return type(self._real)

    def __getitem__(self, draw: Draw) -> Any:
        _seed(draw.seed)
        if self._pace is None:
            return self._real[draw.index]
        with self._pace.sample():
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
        return seeded, (self._real, self._pace)


class _SeededLists(_Seeded):
    def __getitems__(self, given: Sequence[Draw]) -> Any:
        if given:
            _seed(given[0].seed)
        indices = [draw.index for draw in given]
        if self._pace is None:
            return self._real.__getitems__(indices)
        with self._pace.sample(len(indices)):
            return self._real.__getitems__(indices)


def _seed(seed: int) -> None:
    random.seed(seed)
    torch.default_generator.manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)
