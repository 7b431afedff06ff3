"""Tensors and arrays that a script writes into while it trains, such as labels of a data set that it guesses."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
import torch

ARRAY = "__coadapt_array__"  # stands before the name of an array that a data set holds
MOST_PARTS = 32  # the most of a list that are looked at
MOST_BYTES = 64 << 20  # the most elements of all that travel
MOST_COMPARED = 4 << 20  # the most bytes of an array that are compared, as arrays have no version
DEPTH = 3


@dataclass
class DataArrays:
    """The arrays that data sets hold. `_begun`: how they were when training began, by path."""

    things: Mapping[str, Any]
    _begun: dict[str, int | None] = field(default_factory=dict)

    def begin(self) -> None:
        self._begun = {path: _mark(array) for path, array in self._found().items()}

    def changed(self, others: Set[int], too_large: set[str]) -> dict[str, Any]:
        """Return copies of those that have changed since, by path. `others`: ids of those that travel otherwise.

        Replicas that differ have no mean, so what stands for an array is taken as a whole.
        """
        found, left = {}, MOST_BYTES
        for path, array in self._found().items():
            if id(array) in others or path not in self._begun or _mark(array) == self._begun[path]:
                continue
            left -= array.nbytes
            if left < 0:
                too_large.add(path.replace("/", "."))
            else:
                found[path] = OrderedDict({ARRAY: _copied(array)})
        return found

    def put(self, path: str, value: Any) -> None:
        mine = self._found().get(path)
        if fits(mine, value):
            write(mine, value)

    def _found(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if "dataset" in self.things:
            _find("dataset", self.things["dataset"], DEPTH, found, set())
        return found


def is_array(value: Any) -> TypeGuard[torch.Tensor | np.ndarray]:
    return type(value) is torch.Tensor or (isinstance(value, np.ndarray) and value.dtype != object)


def fits(mine: Any, value: Any) -> bool:
    """Return whether `value` can be written into `mine`."""
    if type(mine) is not type(value) or not is_array(mine) or mine.shape != value.shape:
        return False
    if isinstance(mine, np.ndarray):
        return bool(mine.dtype == value.dtype and mine.flags.writeable)
    repeats = any(step == 0 and size > 1 for step, size in zip(mine.stride(), mine.shape, strict=True))
    return mine.dtype == value.dtype and not (repeats or mine.requires_grad or mine.is_inference())


def write(mine: Any, value: Any) -> None:
    if isinstance(mine, np.ndarray):
        mine[...] = value
    else:
        mine.copy_(value)


def _find(path: str, thing: Any, depth: int, found: dict[str, Any], seen: set[int]) -> None:
    if is_array(thing):
        found[path] = thing
    elif depth and id(thing) not in seen:
        seen.add(id(thing))
        for name, part in _parts(thing):
            _find(f"{path}/{name}", part, depth - 1, found, seen)


def _parts(thing: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(thing, list | tuple):
        yield from enumerate(thing[:MOST_PARTS])
    elif not isinstance(thing, type | torch.nn.Module) and hasattr(thing, "__dict__"):
        yield from list(vars(thing).items())


def _mark(array: torch.Tensor | np.ndarray) -> int | None:
    """Return what shows whether an array was written into; None where nothing does."""
    if isinstance(array, torch.Tensor):
        strange = array.layout is not torch.strided or array.requires_grad or array.is_inference()
        return None if strange else array._version
    return None if array.nbytes > MOST_COMPARED else zlib.crc32(np.ascontiguousarray(array).tobytes())


def _copied(array: torch.Tensor | np.ndarray) -> Any:
    return array.detach().to("cpu", copy=True) if isinstance(array, torch.Tensor) else array.copy()
