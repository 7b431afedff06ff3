"""A script's batches as a loop is given them: each whole batch, and the parts of it that this replica computes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from ..collective.group import Group
from .units import Part, Split

EpochSeed = Callable[[int], int]


@dataclass(frozen=True)
class Place:
    """Where a loop over the data is: batches and samples that are done."""

    epoch: int
    loop: int
    batch: int
    offset: int


@dataclass(frozen=True)
class Unit:
    """One batch of the script as one rank sees it: `samples` over all ranks, and this rank's part of each pass.

    `fetch` gives the parts' data, one after the other. Batches are fetched in the order in which they were
    announced.
    """

    samples: int
    parts: tuple[Part, ...]
    fetch: Callable[[], Any]


class Reader:
    """The batches of one loop; the next one can be looked at before it is taken.

    The next one of `endless` batches cannot: what draws it may depend on the script's variables at that time.
    """

    def __init__(self, units: Iterator[Unit], endless: bool = False) -> None:
        self._units = units
        self._endless = endless
        self._next: list[Unit | None] = []

    def peek(self) -> Unit | None:
        """Return the next batch; None at the end of the data."""
        if not self._next:
            self._next.append(next(self._units, None))
        return self._next[0]

    @property
    def has_next(self) -> bool:
        return self._endless or self.peek() is not None

    def take(self) -> Unit | None:
        unit = self.peek()
        self._next.clear()
        return unit


class Source(Protocol):
    """What the training data is read from."""

    size: int | None  # samples of a loop; None: not known
    fusable: bool  # whether larger batches can be made of the script's

    def begin(self, place: Place, split: Split, rank: int, group: Group | None) -> Reader:
        """Read on from `place`; every rank of the group calls this together."""

    @property
    def workers(self) -> int:
        """Return the workers of the script's loader, whose number may change; 0: it has none."""

    def have_workers(self, workers: int) -> bool:
        """Read with so many loader workers from now on, where that changes no order; return whether it does.

        Every rank calls this together.
        """

    def done_with(self) -> None:
        """Forget the oldest batch that was announced, because it has been trained on."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def slices(batches: Iterator[Any], split: Split, rank: int) -> Iterator[Unit]:
    """Yield batches that are read whole, and of which each rank takes its part."""
    return units(batches, length_of, sliced, split, rank)


def units(
    batches: Iterator[Any],
    length: Callable[[Any], int],
    take: Callable[[Any, Part, int], Any],
    split: Split,
    rank: int,
) -> Iterator[Unit]:
    def unit(batch: Any) -> Unit:
        samples = length(batch)
        parts = split.parts(samples, rank)
        taken = (take(batch, part, samples) for part in parts)
        return Unit(samples, tuple(parts), lambda: next(taken))

    yield from map(unit, batches)


def length_of(batch: Any) -> int:
    """Return the samples of a ready-made batch: the first size of its first tensor or array, else its length.

    Raises ValueError for a batch without any of them.
    """
    for leaf in _leaves(batch):
        if isinstance(leaf, torch.Tensor | np.ndarray) and leaf.ndim:
            return len(leaf)
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes) and len(batch):
        return len(batch)
    raise ValueError(f"batch: a {type(batch).__name__} without a tensor or array has no number of samples")


def sliced(batch: Any, part: Part, samples: int) -> Any:
    """Return the part of a ready-made batch: of each tensor, array and list that is as long as the batch."""
    if part.count == 1:
        return batch
    if isinstance(batch, Mapping):
        items = {key: sliced(value, part, samples) for key, value in batch.items()}
        return type(batch)(**items) if hasattr(batch, "keys") and type(batch) is not dict else items
    if isinstance(batch, torch.Tensor | np.ndarray):
        if not batch.ndim or len(batch) != samples:
            return batch
        return part.of(batch).contiguous() if isinstance(batch, torch.Tensor) else part.of(batch).copy()
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(sliced(value, part, samples) for value in batch))
    if isinstance(batch, list | tuple):
        if len(batch) == samples and not any(isinstance(leaf, torch.Tensor | np.ndarray) for leaf in batch):
            return part.of(batch)
        return type(batch)(sliced(value, part, samples) for value in batch)
    return batch


def _leaves(batch: Any) -> Iterator[Any]:
    if isinstance(batch, Mapping):
        for value in batch.values():
            yield from _leaves(value)
    elif isinstance(batch, list | tuple):
        for value in batch:
            yield from _leaves(value)
    else:
        yield batch


def another(batch: Any, deep: bool = False) -> Any:
    """Return the same batch in containers of its own, as a script may take it apart.

    `deep`: the data is copied, too, because a script may write to it.
    """
    if deep:
        with suppress(Exception):  # what cannot be copied is given as it is
            return copy.deepcopy(batch)
    if type(batch) is dict:
        return {key: another(item) for key, item in batch.items()}
    return [another(item) for item in batch] if type(batch) is list else batch
