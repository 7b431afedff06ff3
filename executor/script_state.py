"""What a script keeps in variables of its own: counters, sums, the best value so far, a history.

A process that joins a running job, or starts again from a checkpoint, runs the script from its first line, and its
variables are those of a beginner. Those of a process that was there are read from the frames of its loop and put
into the newcomer's frames at the same place. Only plain values travel, and only those that have changed since
training
began: what a script sets up for itself (its rank, its files, its device) stays its own.
"""

from __future__ import annotations

import copy
import ctypes
import inspect
import math
import os
import re
import sys
import sysconfig
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple, TypeVar

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
# Types that hold nothing of the script's own.
_NO_HOLDERS = frozenset(
    {type(sys), type(lambda: 0), type(len), type, torch.Tensor, torch.nn.Parameter, np.ndarray}
)
MOST_LEAVES = 64  # of one mapping or list
MOST_ITEMS = 100_000  # of one variable
MOST_BYTES = 64 << 20  # of all tensors, arrays and texts together, beside
COPIES = 3  # copies of the models
DEPTH = 6
MODEL = "__coadapt_model__"  # stands beside "state", that of a copy of the prepared model of this number
ATTRIBUTES = "__coadapt_attributes__"  # stands beside "values", the attributes of an object of that class

Variables = dict[str, Any]
_Kind = TypeVar("_Kind")


class _NotPlain(Exception):
    """A value that does not travel."""


class _TooLarge(_NotPlain):
    """A value that would, were it not for its size."""


@dataclass
class ScriptState:
    """The variables of one process. `models` are prepared: copies of them in variables travel as well.

    `baseline`: what variables were when training began, by frame; `changed`: those that were ever anything else.
    """

    models: Sequence[torch.nn.Module] = ()
    baseline: dict[tuple[str, str], Variables] = field(default_factory=dict)
    changed: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    too_large: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Training begins: what is set now is the script's own and does not travel."""
        for frame in script_frames():
            self.baseline[_key(frame)] = dict(self._plain_items(frame, self._budget()))

    def capture(self) -> list[dict[str, Any]]:
        """Variables that have changed since, outermost frame first; plain values only."""
        budget = self._budget()
        captured = []
        for frame in script_frames():
            before = self.baseline.get(_key(frame), {})
            changed = self.changed.setdefault(_key(frame), set())
            values = dict(self._plain_items(frame, budget))
            changed.update(n for n, value in values.items() if n not in before or not _same(value, before[n]))
            variables = {name: value for name, value in values.items() if name in changed}
            captured.append({"function": frame.f_code.co_qualname, "file": _file(frame), "variables": variables})
        return captured

    def _budget(self) -> _Budget:
        """As much as a few copies of the models need."""
        sizes = (p.numel() * p.element_size() for model in self.models for p in model.parameters())
        return _Budget(MOST_BYTES + COPIES * sum(sizes), self.models)

    def _plain_items(self, frame: FrameType, budget: _Budget) -> Iterator[tuple[str, Any]]:
        for name, value in list(frame.f_locals.items()):
            if name.startswith("__") or _PLACES.search(name.lower()):
                continue
            try:
                yield name, _plain(value, budget, DEPTH)
            except _TooLarge:
                self.too_large.add(name)
            except _NotPlain:
                continue

    def apply(self, captured: Sequence[dict[str, Any]], wanted: Callable[[str, Any], bool] | None = None) -> None:
        """Put variables into the frames of the same functions that run here; only those that are `wanted`.

        `wanted(path, value)` is asked of each variable, and of each attribute of the script's objects.
        """
        waiting = list(captured)
        for one in waiting:
            self.changed.setdefault((one["file"], one["function"]), set()).update(one["variables"])
        for frame in script_frames():
            place = next(
                (i for i, one in enumerate(waiting) if (one["file"], one["function"]) == _key(frame)), None
            )
            if place is not None:
                variables = waiting[place]["variables"]
                if wanted is not None:
                    variables = _only(variables, wanted, "/".join(_key(frame)))
                self._write(frame, variables)
                waiting = waiting[place + 1 :]

    def _write(self, frame: FrameType, values: Variables) -> None:
        variables = frame.f_locals
        for name, value in values.items():
            if name in variables or not _holds_objects(value):
                variables[name] = self._merged(variables.get(name), value)
        _settle(frame)

    def _merged(self, mine: Any, value: Any) -> Any:
        """`value`, put into the object that stands there, so that whoever else holds it sees it, too."""
        if isinstance(value, dict) and MODEL in value:
            model = mine
            if not isinstance(mine, torch.nn.Module) or shape_of(mine) != shape_of(self.models[value[MODEL]]):
                model = copy.deepcopy(self.models[value[MODEL]])
            model.load_state_dict(value["state"])
            return model
        if isinstance(value, dict) and ATTRIBUTES in value:
            if mine is None or type(mine).__qualname__ != value[ATTRIBUTES]:
                return mine
            for name, attribute in value["values"].items():
                mine.__dict__[name] = self._merged(mine.__dict__.get(name), attribute)
            return mine
        if isinstance(mine, list) and type(value) is list:
            if any(map(_holds_objects, value[len(mine) :])):
                return mine
            mine[:] = [self._merged(m, v) for m, v in zip(mine, value, strict=False)] + value[len(mine) :]
            return mine
        if isinstance(mine, deque) and type(value) is list:
            mine.clear()
            mine.extend(value)
            return mine
        if isinstance(mine, dict) and isinstance(value, dict):
            kept = {key: self._merged(mine.get(key), item) for key, item in value.items()}
            mine.clear()
            mine.update(kept)
            return mine
        if isinstance(mine, torch.Tensor) and isinstance(value, torch.Tensor):
            return value.to(mine.device)
        return value


class Leaf(NamedTuple):
    """One plain value within reach of the loop: `owner[key]`. `frame`: whose variable it is, if it is one."""

    owner: dict[Any, Any] | list[Any]
    key: Any
    value: Any
    frame: FrameType | None


def leaves(kinds: tuple[type, ...] = _SCALARS) -> dict[str, Leaf]:
    """Plain values of these types, by path: of variables, and of what objects, mappings and lists they hold."""
    found: dict[str, Leaf] = {}
    for frame in script_frames():
        place, variables = "/".join(_key(frame)), frame.f_locals
        for name, value in variables.items():
            if not name.startswith("__"):
                _find(f"{place}/{name}", variables, name, value, kinds, found, 2, frame)
    return found


def _find(
    path: str,
    owner: Any,
    key: Any,
    value: Any,
    kinds: tuple[type, ...],
    found: dict[str, Leaf],
    depth: int,
    frame: FrameType | None,
) -> None:
    kind = type(value)
    if kind in kinds:
        found[path] = Leaf(owner, key, value, frame)
    elif depth == 0 or kind in _NO_HOLDERS:
        return
    elif kind is dict or isinstance(value, dict):
        if len(value) <= MOST_LEAVES:
            for inner, item in value.items():
                _find(f"{path}/{inner}", value, inner, item, kinds, found, depth - 1, None)
    elif kind is list:
        if len(value) <= MOST_LEAVES:
            for inner, item in enumerate(value):
                _find(f"{path}/{inner}", value, inner, item, kinds, found, depth - 1, None)
    elif _is_own_object(value):
        for inner, item in vars(value).items():
            _find(f"{path}/{inner}", vars(value), inner, item, kinds, found, depth - 1, None)


def script_objects(kind: type[_Kind]) -> list[_Kind]:
    """Objects of a kind that variables of the script hold, or attributes of its objects."""
    found: dict[int, _Kind] = {}
    for frame in script_frames():
        for value in list(frame.f_locals.values()):
            held = vars(value).values() if _is_own_object(value) else ()
            found.update({id(item): item for item in (value, *held) if isinstance(item, kind)})
    return list(found.values())


def put(values: Mapping[str, Any], places: Mapping[str, Leaf]) -> None:
    """Set leaves, by path, to other values."""
    frames = {}
    for path, value in values.items():
        leaf = places[path]
        leaf.owner[leaf.key] = value
        if leaf.frame is not None:
            frames[id(leaf.frame)] = leaf.frame
    for frame in frames.values():
        _settle(frame)


class Undo:
    """Plain values and lengths of lists, to be put back where a batch is done again or takes a further pass."""

    def __init__(self) -> None:
        self._leaves = leaves()
        self._lengths = [
            (value, len(value))
            for frame in script_frames()
            for value in frame.f_locals.values()
            if type(value) is list
        ]

    def restore(self) -> None:
        put({path: leaf.value for path, leaf in self._leaves.items()}, self._leaves)
        for found, length in self._lengths:
            del found[length:]

    def moved(self, leave_out: Container[str]) -> dict[str, float]:
        """How far numbers with a fraction have moved."""
        now = leaves((float,))
        return {
            path: now[path].value - leaf.value
            for path, leaf in self._leaves.items()
            if type(leaf.value) is float and path in now and path not in leave_out
        }

    def appended(self) -> dict[int, float]:
        """Numbers that lists have grown by since, one for the batch each; by the list's number."""
        return {
            i: float(found[length])
            for i, (found, length) in enumerate(self._lengths)
            if len(found) == length + 1 and isinstance(found[length], float)
        }

    def repeat(self, keep: Container[str]) -> None:
        """Before a further pass of the same batch: put back what goes by batches, but not the paths to `keep`."""
        put({path: leaf.value for path, leaf in self._leaves.items() if path not in keep}, self._leaves)
        for found, length in self._lengths:
            if len(found) == length + 1:  # one for the batch, and not one for each of its samples
                del found[length:]

    def average(self, moves: Sequence[tuple[float, dict[str, float]]]) -> None:
        """After the last pass: numbers with a fraction moved by the mean of all passes; `moves`: weights and
        moves.
        """
        now = leaves((float,))
        whole = sum(weight for weight, _ in moves)
        put(
            {
                path: leaf.value + sum(weight * moved[path] for weight, moved in moves) / whole
                for path, leaf in self._leaves.items()
                if path in now and all(math.isfinite(moved.get(path, math.nan)) for _, moved in moves)
            },
            self._leaves,
        )

    def average_appended(self, appended: Sequence[tuple[float, dict[int, float]]]) -> None:
        """The same for numbers that were appended to lists."""
        whole = sum(weight for weight, _ in appended)
        for i in set.intersection(*(set(numbers) for _, numbers in appended)):
            found, length = self._lengths[i]
            found[length] = sum(weight * numbers[i] for weight, numbers in appended) / whole


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


@dataclass
class _Budget:
    bytes: int
    models: Sequence[torch.nn.Module] = ()

    def take(self, count: int) -> None:
        if count > self.bytes:
            raise _TooLarge
        self.bytes -= count


def shape_of(model: torch.nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    """What tells whether one model's state fits another."""
    return [(name, tuple(value.shape)) for name, value in model.state_dict().items()]


def _only(values: Mapping[str, Any], wanted: Callable[[str, Any], bool], path: str) -> dict[str, Any]:
    """Those that are wanted, of variables or of an object's attributes."""
    found = {}
    for name, value in values.items():
        place = f"{path}/{name}"
        if isinstance(value, dict) and ATTRIBUTES in value:
            found[name] = {**value, "values": _only(value["values"], wanted, place)}
        elif wanted(place, value):
            found[name] = value
    return found


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
    if isinstance(value, torch.nn.Module):
        return _plain_model(value, budget)
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
        return items if kind is deque else kind(items)
    if kind in (dict, Counter, OrderedDict) or isinstance(value, dict):
        if len(value) > MOST_ITEMS:
            raise _NotPlain
        budget.take(8 * len(value))
        pairs = {_plain(k, budget, 1): _plain(v, budget, depth - 1) for k, v in value.items()}
        return Counter(pairs) if kind is Counter else pairs
    if _is_own_object(value):
        attributes = {}
        for name, attribute in vars(value).items():
            try:
                attributes[name] = _plain(attribute, budget, depth - 1)
            except _NotPlain:
                continue
        return {ATTRIBUTES: kind.__qualname__, "values": attributes}
    raise _NotPlain


def _plain_model(value: torch.nn.Module, budget: _Budget) -> dict[str, Any]:
    """A copy of a prepared model, such as the best one so far: its state, and whose copy it is."""
    if any(value is model for model in budget.models):
        raise _NotPlain
    place = next((i for i, model in enumerate(budget.models) if shape_of(model) == shape_of(value)), None)
    if place is None:
        raise _NotPlain
    state = {name: _plain_tensor(tensor.detach(), budget) for name, tensor in value.state_dict().items()}
    return {MODEL: place, "state": state}


def _plain_tensor(value: torch.Tensor, budget: _Budget) -> torch.Tensor:
    if isinstance(value, torch.nn.Parameter) or value.layout is not torch.strided:
        raise _NotPlain
    if value.requires_grad and value.numel() > 1024:
        raise _NotPlain
    budget.take(value.numel() * value.element_size())
    return value.detach().to("cpu", copy=True)


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


def _settle(frame: FrameType) -> None:
    """Let a function's frame take over what was written to its `f_locals`."""
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def _holds_objects(value: Any) -> bool:
    """Whether it stands for objects of the script's classes, which only the script itself can make."""
    if isinstance(value, dict):
        return ATTRIBUTES in value or any(map(_holds_objects, value.values()))
    return isinstance(value, list | tuple | deque) and any(map(_holds_objects, value))
