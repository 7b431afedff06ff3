"""Tensors and arrays that a script changes while it trains, such as labels of a data set that it guesses."""

from __future__ import annotations

import weakref
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import torch

ARRAY = "__coadapt_array__"  # stands before the name of an array that a data set holds
MOST_PARTS = 32  # the most of a list that are looked at
MOST_BYTES = 64 << 20  # the most elements of all that travel
MOST_COMPARED = 4 << 20  # the most bytes of an array that are compared, as arrays have no version
DEPTH = 3


class Held(NamedTuple):
    """An array, and what holds it under which name."""

    owner: Any
    name: Any
    array: Any


@dataclass
class DataArrays:
    """The arrays that data sets hold. `_begun`: those of when training began, and their marks, by path."""

    things: Mapping[str, Any]
    _begun: dict[str, tuple[weakref.ref[Any], int | None]] = field(default_factory=dict)

    def begin(self) -> None:
        self._begun = {path: (weakref.ref(one.array), _mark(one.array)) for path, one in self._found().items()}

    def changed(self, others: Set[int], too_large: set[str]) -> dict[str, Any]:
        """Return copies of those that have changed since, by path. `others`: ids of those that travel otherwise.

        Replicas that differ have no mean, so what stands for an array is taken as a whole.
        """
        found, left = {}, MOST_BYTES
        for path, (_, _, array) in self._found().items():
            if id(array) in others or path not in self._begun or self._is_as_begun(path, array):
                continue
            left -= array.nbytes
            if left < 0:
                too_large.add(path.replace("/", "."))
            else:
                found[path] = OrderedDict({ARRAY: _copied(array)})
        return found

    def put(self, path: str, value: Any) -> None:
        """Write what another process has into the array here, or put it in its place where it is unlike it."""
        held = self._found().get(path)
        if held is None or type(held.array) is not type(value):
            return
        if fits(held.array, value):
            write(held.array, value)
        elif _mark(held.array) is not None:
            _replace(held, value)

    def _is_as_begun(self, path: str, array: Any) -> bool:
        begun, mark = self._begun[path]
        now = _mark(array)
        if begun() is array or (isinstance(array, np.ndarray) and now is not None):
            return now == mark
        return isinstance(array, torch.Tensor) and now is None  # another one, which no process could be given

    def _found(self) -> dict[str, Held]:
        found: dict[str, Held] = {}
        if "dataset" in self.things:
            _find("dataset", Held(self.things, "dataset", self.things["dataset"]), DEPTH, found, set())
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


def _find(path: str, held: Held, depth: int, found: dict[str, Held], seen: set[int]) -> None:
    thing = held.array
    if is_array(thing):
        found[path] = held
    elif depth and id(thing) not in seen:
        seen.add(id(thing))
        for name, part in _parts(thing):
            _find(f"{path}/{name}", Held(thing, name, part), depth - 1, found, seen)


def _replace(held: Held, value: Any) -> None:
    """Put another array in the place of one; a tuple, and what refuses it, keeps its own."""
    if isinstance(value, torch.Tensor):
        value = value.to(held.array.device)
    with suppress(AttributeError, TypeError):
        if isinstance(held.owner, list):
            held.owner[held.name] = value
        else:
            setattr(held.owner, held.name, value)


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
