"""What a script keeps in variables of its own: counters, sums, the best value so far, a history.

A process that joins a running job, or starts again from a checkpoint, runs the script from its first line, and its
variables are those of a beginner. Those of a process that was there are read from the frames of its loop and put
into the newcomer's frames at the same place. Only plain values travel, and only those that have changed since
training
began: what a script sets up for itself (its rank, its files, its device) stays its own.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import sysconfig
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
import torch

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_FOREIGN = tuple(
    {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_SCALARS = (bool, int, float, complex, str, bytes, type(None))
# What says where a process is and not how far it is.
_PLACES = re.compile(
    r"(^|_)(rank|world|world_size|main|master|device|gpu|pid|host|hostname|port|seed|args|cfg|config)($|_)"
)
MOST_ITEMS = 100_000  # of one variable
MOST_BYTES = 16 << 20  # of all tensors, arrays and texts together
DEPTH = 6
_ATTRIBUTES = "__coadapt_attributes__"

Variables = dict[str, Any]


class _NotPlain(Exception):
    """A value that does not travel."""


@dataclass
class ScriptState:
    """The variables of one process. `baseline`: what they were when training began, by frame."""

    baseline: dict[tuple[str, str], Variables] = field(default_factory=dict)

    def begin(self) -> None:
        """Training begins: what is set now is the script's own and does not travel."""
        for frame in script_frames():
            self.baseline[_key(frame)] = dict(_plain_items(frame, _Budget()))

    def capture(self) -> list[dict[str, Any]]:
        """Variables that have changed, outermost frame first; plain values only."""
        budget = _Budget()
        captured = []
        for frame in script_frames():
            before = self.baseline.get(_key(frame), {})
            changed = {
                name: value
                for name, value in _plain_items(frame, budget)
                if name not in before or not _same(value, before[name])
            }
            captured.append({"function": frame.f_code.co_qualname, "file": _file(frame), "variables": changed})
        return captured

    @staticmethod
    def apply(captured: list[dict[str, Any]]) -> None:
        """Put variables into the frames of the same functions that run here."""
        waiting = list(captured)
        for frame in script_frames():
            place = next(
                (i for i, one in enumerate(waiting) if (one["file"], one["function"]) == _key(frame)), None
            )
            if place is not None:
                _write(frame, waiting[place]["variables"])
                waiting = waiting[place + 1 :]


@dataclass
class Undo:
    """Numbers, texts and lengths of lists of the running loop, to be put back when a batch is done again."""

    scalars: list[tuple[FrameType, Variables]]
    lengths: list[tuple[list[Any], int]]

    @classmethod
    def now(cls) -> Undo:
        scalars, lengths = [], []
        for frame in script_frames():
            values = {
                n: v for n, v in frame.f_locals.items() if isinstance(v, _SCALARS) and not n.startswith("__")
            }
            scalars.append((frame, values))
            lengths += [(v, len(v)) for v in frame.f_locals.values() if type(v) is list]
        return cls(scalars, lengths)

    def restore(self) -> None:
        for frame, values in self.scalars:
            _write(frame, values)
        for found, length in self.lengths:
            del found[length:]


def counters() -> dict[str, int]:
    """Whole numbers in reach of the running loop, by name: of its variables, and of objects and mappings they
    hold.
    """
    found: dict[str, int] = {}
    for frame in script_frames():
        for name, value in frame.f_locals.items():
            if not name.startswith("__"):
                _count(f"{frame.f_code.co_qualname}: {name}", value, found, 2)
    return found


def _count(name: str, value: Any, found: dict[str, int], depth: int) -> None:
    if type(value) is int:
        found[name] = value
    elif depth and isinstance(value, Mapping) and len(value) <= 100:
        for key, item in value.items():
            _count(f"{name}[{key!r}]", item, found, depth - 1)
    elif depth and _is_own_object(value):
        for key, item in vars(value).items():
            _count(f"{name}.{key}", item, found, depth - 1)


def script_frames() -> list[FrameType]:
    """Frames of the script's own files, outermost first."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_own_file(frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found[::-1]


_own_files: dict[str, bool] = {}


def _is_own_file(name: str) -> bool:
    known = _own_files.get(name)
    if known is None:
        path = os.path.realpath(name)
        foreign = name.startswith("<") or any(
            path.startswith(root + os.sep) for root in (*_FOREIGN, _in_package())
        )
        known = _own_files[name] = not foreign
    return known


def _in_package() -> str:
    return os.path.join(os.path.realpath(_PACKAGE), "executor")


def _key(frame: FrameType) -> tuple[str, str]:
    return _file(frame), frame.f_code.co_qualname


def _file(frame: FrameType) -> str:
    return os.path.basename(frame.f_code.co_filename)


def _plain_items(frame: FrameType, budget: _Budget) -> Iterator[tuple[str, Any]]:
    for name, value in list(frame.f_locals.items()):
        if name.startswith("__") or _PLACES.search(name.lower()):
            continue
        try:
            yield name, _plain(value, budget, DEPTH)
        except _NotPlain:
            continue


@dataclass
class _Budget:
    bytes: int = MOST_BYTES

    def take(self, count: int) -> None:
        if count > self.bytes:
            raise _NotPlain
        self.bytes -= count


def _plain(value: Any, budget: _Budget, depth: int) -> Any:
    """A copy of a plain value; raises `_NotPlain` for any other."""
    kind = type(value)
    if kind in (bool, int, float, complex, type(None)):
        return value
    if kind in (str, bytes):
        budget.take(len(value))
        return value
    if isinstance(value, torch.Tensor):
        return _plain_tensor(value, budget)
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype == object:
            raise _NotPlain
        budget.take(value.nbytes)
        return value.copy()
    if depth == 0:
        raise _NotPlain
    if kind in (list, tuple, set, frozenset, deque):
        if len(value) > MOST_ITEMS:
            raise _NotPlain
        budget.take(8 * len(value))
        items = [_plain(item, budget, depth - 1) for item in value]
        return deque(items, value.maxlen) if kind is deque else kind(items)
    if kind in (dict, Counter, OrderedDict) or isinstance(value, dict):
        if len(value) > MOST_ITEMS:
            raise _NotPlain
        budget.take(8 * len(value))
        items = {_plain(k, budget, 1): _plain(v, budget, depth - 1) for k, v in value.items()}
        return Counter(items) if kind is Counter else items
    if _is_own_object(value):
        attributes = {}
        for name, attribute in vars(value).items():
            try:
                attributes[name] = _plain(attribute, budget, depth - 1)
            except _NotPlain:
                continue
        return {_ATTRIBUTES: kind.__qualname__, "values": attributes}
    raise _NotPlain


def _plain_tensor(value: torch.Tensor, budget: _Budget) -> torch.Tensor:
    if isinstance(value, torch.nn.Parameter) or value.layout is not torch.strided:
        raise _NotPlain
    if value.requires_grad and value.numel() > 1024:
        raise _NotPlain
    budget.take(value.numel() * value.element_size())
    return value.detach().clone()


def _is_own_object(value: Any) -> bool:
    """An object of a class that the script defines, and that is not one of torch's kinds of things."""
    kind = type(value)
    if isinstance(value, torch.nn.Module | torch.optim.Optimizer | torch.utils.data.Dataset) or not hasattr(
        value, "__dict__"
    ):
        return False
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    return kind.__module__ == "__main__" or (file is not None and _is_own_file(file))


def _same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(a, b))
    if isinstance(a, np.ndarray | np.generic):
        return bool(np.array_equal(a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple | deque):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b) or (a != a and b != b)


def _write(frame: FrameType, values: Variables) -> None:
    variables = frame.f_locals
    for name, value in values.items():
        if name in variables or not _holds_objects(value):
            variables[name] = _merged(variables.get(name), value)
    if variables is not frame.f_globals and sys.version_info < (3, 13):
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def _merged(mine: Any, value: Any) -> Any:
    """`value`, put into the object that stands there, so that whoever else holds it sees it, too."""
    if isinstance(value, dict) and _ATTRIBUTES in value:
        if mine is None or type(mine).__qualname__ != value[_ATTRIBUTES]:
            return mine
        for name, attribute in value["values"].items():
            mine.__dict__[name] = _merged(mine.__dict__.get(name), attribute)
        return mine
    if isinstance(mine, list) and type(value) is list:
        if any(map(_holds_objects, value[len(mine) :])):
            return mine
        mine[:] = [_merged(m, v) for m, v in zip(mine, value, strict=False)] + value[len(mine) :]
        return mine
    if isinstance(mine, dict) and isinstance(value, dict):
        kept = {key: _merged(mine.get(key), item) for key, item in value.items()}
        mine.clear()
        mine.update(kept)
        return mine
    if isinstance(mine, torch.Tensor) and isinstance(value, torch.Tensor):
        return value.to(mine.device)
    return value


def _holds_objects(value: Any) -> bool:
    """Whether it stands for objects of the script's classes, which only the script itself can make."""
    if isinstance(value, dict):
        return _ATTRIBUTES in value or any(map(_holds_objects, value.values()))
    return isinstance(value, list | tuple | deque) and any(map(_holds_objects, value))
