"""The variables of a running script: its frames, and the plain values within their reach.

A loop's variables are those of the functions that are being called, of the script's module, and of modules of
its own beside it. What objects, mappings and lists hold belongs to them.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import sys
import sysconfig
import weakref
from collections import Counter, deque
from collections.abc import Container, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from types import CellType, FrameType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from . import own_code
from .undue import Undue

_OF_PYTHON = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
_FOREIGN = tuple(
    {os.path.realpath(root) + os.sep for root in (*_OF_PYTHON, own_code.FOLDER, own_code.INTEGRATIONS)}
)
_INSTALLED = {"site-packages", "dist-packages"}
WHOLE = (int, np.int64, np.int32)
FRACTIONS = (float, np.float64, np.float32)
NUMBERS = (*WHOLE, *FRACTIONS)
ARRAYS = (torch.Tensor, np.ndarray)
CONTAINERS = (list, deque, dict, tuple, set, frozenset)
OTHERS = (bool, complex, str, bytes, type(None))
# Types that hold nothing of the script's own.
_NO_HOLDERS = frozenset(
    {type(sys), type(len), type, torch.Tensor, torch.nn.Parameter, np.ndarray, *NUMBERS, *OTHERS}
)
_CONTAINERS_OF_MODULES = (torch.nn.ModuleDict, torch.nn.ModuleList)
_OF_METRICS = ("update", "compute", "reset")  # methods that make a module a metric, whoever has written it
DEPTH = 4  # the most steps from a variable to what is found in what it holds
MOST_LEAVES = 64  # the most values of one mapping or list
MOST_HOLDERS = 512  # the most objects, mappings and lists that are looked into
MOST_ELEMENTS = 1 << 16  # the most elements of a tensor or array
MOST_ITEMS = 100_000  # the most of a list or mapping that is looked into; one of more numbers goes as a whole
MODULE = "<module>"  # stands for the function whose variables are a module's

_Kind = TypeVar("_Kind")
_known_modules: list[Any] = [0, []]  # how many there were, and the names of the script's own
_names_of_modules: dict[int, tuple[int, list[str]]] = {}  # by id of a module's variables


class Place(NamedTuple):
    """Where variables are: in a function that is being called (`frame`), or in a module (`function` is MODULE)."""

    file: str
    function: str
    variables: MutableMapping[str, Any]
    names: Sequence[str]
    frame: FrameType | None

    @property
    def path(self) -> str:
        """The path of the place, which is the same in each process."""
        return f"{self.file}/{self.function}"

    @property
    def key(self) -> tuple[str, str]:
        return self.file, self.function

    def settle(self) -> None:
        """Let a function's frame take over what was written to its variables."""
        frame = self.frame
        if frame is not None and sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


class Leaf(NamedTuple):
    """One plain value: `owner[key]`. `place`: whose variable it is, if it is one."""

    owner: Any
    key: Any
    value: Any
    place: Place | None

    @property
    def now(self) -> Any:
        return self.owner[self.key]


@dataclass
class Reach:
    """What was found, by path: plain values, and lists.

    aliases: further paths to mappings and lists.
    wide: lengths of mappings and lists that are looked into although they are long.
    containers: where lists, mappings, tuples and sets stand, which a script may replace by others.
    mappings: paths of all mappings.
    holders: where mappings stand, and objects that hold something.
    """

    kinds: tuple[type, ...]
    elements: int = MOST_ELEMENTS
    wide: Container[int] = ()
    leaves: dict[str, Leaf] = field(default_factory=dict)
    lists: dict[str, list[Any] | deque[Any]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    containers: dict[str, Leaf] = field(default_factory=dict)
    mappings: set[str] = field(default_factory=set)
    holders: dict[str, Leaf] = field(default_factory=dict)
    _seen: dict[int, str] = field(default_factory=dict)

    def look(self, path: str, owner: Any, key: Any, depth: int, place: Place | None = None) -> None:
        """Look at `owner[key]` and what it holds."""
        value = owner[key]
        kind: type = int if isinstance(value, Undue) else type(value)
        if kind in self.kinds:
            if kind not in ARRAYS or self._is_kept(value):
                self.leaves[path] = Leaf(owner, key, value, place)
            return
        if kind in CONTAINERS:
            self.containers[path] = Leaf(owner, key, value, place)
        if depth == 0 or not _may_hold(value):
            return
        inner: MutableMapping[Any, Any] | list[Any] | deque[Any] | tuple[Any, ...]
        keys: list[Any]
        if isinstance(value, dict):
            self.mappings.add(path)
            inner, keys = value, list(value)
        elif kind is list or kind is deque:
            self.lists[path] = value
            inner, keys = value, list(range(len(value)))
        elif kind is tuple and value and all(isinstance(item, torch.Tensor) for item in value):
            inner, keys = value, list(range(len(value)))
        elif kind is tuple:  # what it holds stays, and may change
            inner = dict(enumerate(value))
            keys = [i for i, item in inner.items() if type(item) not in self.kinds and _may_hold(item)]
            if not keys:
                return
        elif (held := holdings_of(value)) is not None:
            inner, keys = held, list(held)
        else:
            return
        if (first := self._seen.setdefault(id(value), path)) != path:
            if isinstance(value, dict | list | deque):
                self.aliases[path] = first
            return
        if isinstance(inner, MutableMapping):
            self.holders[path] = Leaf(owner, key, value, place)
        many = len(keys) > MOST_LEAVES and len(keys) not in self.wide
        if many or len(self._seen) > MOST_HOLDERS:
            return
        for name in keys:
            self.look(f"{path}/{name}", inner, name, depth - 1)

    def _is_kept(self, value: Any) -> bool:
        if isinstance(value, torch.Tensor):
            return value.numel() <= self.elements and not value.requires_grad and value.layout is torch.strided
        return value.size <= self.elements and value.dtype.kind in "iufb"


def _may_hold(value: Any) -> bool:
    return type(value) not in _NO_HOLDERS and not isinstance(value, type | Undue)


def is_entry_of(path: str, mappings: Container[str]) -> bool:
    """Return whether the parent of `path` is one of these mappings."""
    return path.rpartition("/")[0] in mappings


def reach(kinds: tuple[type, ...], elements: int = MOST_ELEMENTS, wide: Container[int] = ()) -> Reach:
    """Return values of these types, and lists, within reach of the loop; tensors of at most so many elements.

    `wide` as for `Reach`.
    """
    found = Reach(kinds, elements, wide)
    for place in script_places():
        for name in place.names:
            found.look(f"{place.path}/{name}", place.variables, name, DEPTH, place)
    return found


def script_objects(*kinds: type[_Kind]) -> list[_Kind]:
    """Yield objects of some kinds that variables of the script hold, or attributes of its objects."""
    found: dict[int, _Kind] = {}
    for place in script_places():
        for value in [place.variables[name] for name in place.names]:
            held = vars(value).values() if is_own_object(value) else ()
            found.update({id(item): item for item in (value, *held) if isinstance(item, kinds)})
    return list(found.values())


def put(values: Mapping[str, Any], places: Mapping[str, Leaf]) -> None:
    """Set leaves, by path, to other values."""
    places_written: dict[int, Place] = {}
    for path, value in values.items():
        leaf = places[path]
        leaf.owner[leaf.key] = value
        if leaf.place is not None:
            places_written[id(leaf.place)] = leaf.place
    for place in places_written.values():
        place.settle()


def script_places() -> list[Place]:
    """Return frames of the script's own files, outermost first, and then its modules."""
    frames = script_frames()
    places = [_place_of(frame) for frame in frames]
    shown = {id(frame.f_globals) for frame in frames if frame.f_locals is frame.f_globals}
    for name, variables in _own_modules():
        if id(variables) not in shown:
            places.append(Place(name, MODULE, variables, _names_that_vary(variables), None))
    return places


def _place_of(frame: FrameType) -> Place:
    variables = frame.f_locals
    names = [name for name in variables if not name.startswith("__")]
    file, function = os.path.basename(frame.f_code.co_filename), frame.f_code.co_qualname
    return Place(file, function, variables, names, frame)


def _own_modules() -> list[tuple[str, dict[str, Any]]]:
    """Yield names and variables of modules beside the script from which it imports."""
    if len(sys.modules) != _known_modules[0]:
        modules = list(sys.modules.items())
        own = sorted(name for name, module in modules if _is_own_module(name, module))
        _known_modules[:] = [len(modules), own]
    names = [name for name in _known_modules[1] if name in sys.modules]
    return [(name, vars(sys.modules[name])) for name in names]


def _is_own_module(name: str, module: Any) -> bool:
    file = getattr(module, "__file__", None) if isinstance(module, ModuleType) else None
    return file is not None and name.partition(".")[0] != "coadapt" and file.endswith(".py") and _is_own_file(file)


def _names_that_vary(variables: dict[str, Any]) -> Sequence[str]:
    """Return the names of a module's variables to look at: those of no functions, classes and modules."""
    known = _names_of_modules.get(id(variables))
    if known is None or known[0] != len(variables):
        names = [
            name
            for name, value in variables.items()
            if not name.startswith("__") and not isinstance(value, type | ModuleType | FunctionType)
        ]
        known = _names_of_modules[id(variables)] = (len(variables), names)
    return [name for name in known[1] if name in variables]


def script_frames() -> list[FrameType]:
    """Return frames of the script's own files, outermost first."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_own_file(frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found[::-1]


def is_own_object(value: Any) -> bool:
    """Return whether an object is of a class of the script's that is not one of torch's kinds of things."""
    kind = type(value)
    if isinstance(value, type | torch.nn.Module | torch.optim.Optimizer | torch.utils.data.Dataset):
        return False
    return hasattr(value, "__dict__") and _is_own_class(kind)


def _is_own_class(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    return kind.__module__ == "__main__" or (file is not None and _is_own_file(file))


class Enclosed(MutableMapping[str, Any]):
    """The variables of an outer function that has returned, as an inner one still has them."""

    def __init__(self, function: FunctionType) -> None:
        names, cells = function.__code__.co_freevars, function.__closure__ or ()
        self._cells: dict[str, CellType] = {n: c for n, c in zip(names, cells, strict=True) if _is_bound(c)}

    def __getitem__(self, name: str) -> Any:
        return self._cells[name].cell_contents

    def __setitem__(self, name: str, value: Any) -> None:
        self._cells[name].cell_contents = value

    def __delitem__(self, name: str) -> None:
        raise TypeError("variables of a function cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)


def _is_bound(cell: CellType) -> bool:
    return cell != CellType()


class Slots(MutableMapping[str, Any]):
    """The attributes of an object that has slots for them."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing
        self._slots = {
            name: slot
            for kind in type(thing).__mro__
            for name, slot in vars(kind).items()
            if isinstance(slot, MemberDescriptorType) and _is_own_class(kind)
        }

    def __getitem__(self, name: str) -> Any:
        try:
            return self._slots[name].__get__(self._thing)
        except AttributeError:
            raise KeyError(name) from None

    def __setitem__(self, name: str, value: Any) -> None:
        self._slots[name].__set__(self._thing, value)

    def __delitem__(self, name: str) -> None:
        self._slots[name].__delete__(self._thing)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._slots if name in self)

    def __len__(self) -> int:
        return len(list(iter(self)))


_INTERNAL = vars(torch.nn.Module()).keys()
_trained: weakref.WeakValueDictionary[int, torch.nn.Module] = weakref.WeakValueDictionary()
_shapes: dict[int, Counter[torch.Size]] = {}  # of what each model trains, by its id


def are_trained(models: Sequence[torch.nn.Module]) -> None:
    """Return whether these are prepared modules or averages of what these train, which others look after."""
    for model in models:
        _trained.update({id(module): module for module in model.modules()})
        parameters = [one for one in model.parameters() if one.requires_grad]
        if sum(one.numel() for one in parameters) > 1:
            _shapes[id(model)] = Counter(one.shape for one in parameters)


def is_metric(value: Any) -> bool:
    """Return whether it is a module that trains nothing and holds sums and the like, or a container of such."""
    if not isinstance(value, torch.nn.Module) or id(value) in _trained:
        return False
    kind = type(value)
    is_known = kind in _CONTAINERS_OF_MODULES or _is_own_class(kind) or all(hasattr(kind, m) for m in _OF_METRICS)
    if not is_known or next(value.parameters(), None) is not None:
        return False
    held = Counter(buffer.shape for buffer in value.buffers())
    return not any(shapes <= held for number, shapes in _shapes.items() if number in _trained)


class Buffers(MutableMapping[str, Any]):
    """What a module holds: plain attributes, buffers, and modules."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module

    def _holder(self, name: str) -> dict[str, Any]:
        inside = vars(self._module)
        return next((held for held in (inside["_buffers"], inside["_modules"]) if name in held), inside)

    def __getitem__(self, name: str) -> Any:
        return self._holder(name)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._holder(name)[name] = value

    def __delitem__(self, name: str) -> None:
        del self._holder(name)[name]

    def __iter__(self) -> Iterator[str]:
        inside = vars(self._module)
        yield from (name for name in inside if name not in _INTERNAL)
        yield from inside["_buffers"]
        yield from inside["_modules"]

    def __len__(self) -> int:
        return len(list(iter(self)))


# Functions that make batches, whose variables go with the data.
_of_data: weakref.WeakSet[FunctionType] = weakref.WeakSet()


def leave_out(function: Any) -> None:
    """Leave the variables that this function encloses to somebody else."""
    if isinstance(function, FunctionType):
        _of_data.add(function)


def holdings_of(value: Any) -> MutableMapping[str, Any] | None:
    """Return what an object of the script's classes holds, or a function of its own encloses; else None."""
    if isinstance(value, FunctionType):
        if not value.__closure__ or value in _of_data or not _is_own_file(value.__code__.co_filename):
            return None
        outer = value.__qualname__.rpartition(".<locals>.")[0]
        running = any(frame.f_code.co_qualname == outer for frame in script_frames())
        return None if running else Enclosed(value)
    if is_own_object(value):
        return vars(value)
    if is_metric(value):
        return Buffers(value)
    return Slots(value) if _has_slots(value) else None


def _has_slots(value: Any) -> bool:
    """Return whether it is an object of the script's own classes with slots instead of a dictionary."""
    kind = type(value)
    has_slots = hasattr(kind, "__slots__") and not issubclass(kind, tuple) and not hasattr(value, "__dict__")
    return has_slots and _is_own_class(kind)


_own_files: dict[str, bool] = {}


def _is_own_file(name: str) -> bool:
    known = _own_files.get(name)
    if known is None:
        # The name tells of nearly all of thousands of files: following links costs most of a second for them.
        foreign = name.startswith("<") or _is_foreign(name) or _is_foreign(os.path.realpath(name))
        known = _own_files[name] = not foreign
    return known


def _is_foreign(path: str) -> bool:
    """Return whether a path is Python's, this runtime's, or installed, as in a user's own site."""
    return path.startswith(_FOREIGN) or not _INSTALLED.isdisjoint(path.split(os.sep))
