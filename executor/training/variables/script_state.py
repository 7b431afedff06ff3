"""What a script keeps in variables of its own: counters, sums, the best value so far, a history.

A process that joins a running job, or starts again from a checkpoint, runs the script from its first line. Its
variables are those of a beginner.
Those of a process that was there are read from the frames of its loop, and put into the newcomer's frames at the
same place.
Only plain values travel, and only those that have changed since training began. What a script sets up for itself
stays its own: its rank, its files, its device.
"""

from __future__ import annotations

import copy
import functools
import inspect
import time
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch.optim.swa_utils import AveragedModel

from . import script_random
from .place_names import is_of_place
from .script_arrays import ARRAY, DataArrays, fits, is_array, write
from .script_classes import NotMade, empty, kind_of, made
from .script_frames import MOST_ITEMS, Place, holdings_of, is_metric, script_places
from .script_random import GLOBALS, is_generator
from .script_references import OTHER, REFERENCE, References, is_referred, must_be, other, what
from .script_sums import ATTRIBUTES, counts_by_key
from .undue import Undue

_SCALARS = (bool, int, float, complex, str, type(None))
_NUMBERS = frozenset({bool, int, float, type(None)})  # a list of these alone may be long
MOST_BYTES = 64 << 20  # the most elements of all tensors, arrays and texts together, beside those of the models
COPIES = 3  # copies of the models that may travel
_TOO_MUCH = 1 << 62
DEPTH = 6
SETTINGS_DEPTH = 3  # steps into what data sets and modules hold
MOST_PARTS = 32  # the most of a list of objects, such as transforms
MODEL = "__coadapt_model__"  # stands beside "state" and the number of the prepared model that was copied
GENERATOR = "__coadapt_generator__"  # stands before the state of a random generator
CLOCK = "__coadapt_clock__"  # stands before a reading of `time.monotonic`, beside "ago": seconds before now
_BEGUN_S = time.monotonic()
_GLOBALS: dict[str, Any] = {f"global/{i}": generator for i, generator in enumerate(GLOBALS)}
THINGS = "things"  # stands for a function: what was given to `prepare`, and the data set

Variables = dict[str, Any]


class _NotPlain(Exception):
    """Raised for a value that does not travel."""


class _TooLarge(_NotPlain):
    """Raised for a value that would travel, were it not for its size."""


@dataclass
class ScriptState:
    """The variables of one process. `models` are prepared: copies of them in variables travel as well.

    things: objects whose plain attributes travel, such as those of a data set, by name.
    ordering: ids of random generators that decide on samples and travel with them.
    baseline: what variables were when training began, by frame.
    changed: those that were ever anything else.
    """

    models: Sequence[torch.nn.Module] = ()
    things: Mapping[str, Any] = field(default_factory=dict)
    ordering: Set[int] = frozenset()
    baseline: dict[tuple[str, str], Variables] = field(default_factory=dict)
    changed: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    too_large: set[str] = field(default_factory=set)
    _set_up: dict[int, int] = field(default_factory=dict)
    # Tensors and arrays that variables held when training began, by path.
    _begun_with: dict[str, weakref.ref[Any]] = field(default_factory=dict)
    _references: References = field(default_factory=References)
    _made: dict[str, Any] = field(default_factory=dict)  # what stands for objects that are met several times
    _kinds: Mapping[str, str] = field(default_factory=dict)  # of containers in the frame that is written, by path

    def __post_init__(self) -> None:
        self._arrays = DataArrays(self.things)

    def begin(self) -> None:
        """Begin the training: what is set now is the script's own and does not travel."""
        budget = self._budget()
        budget.begins = True
        for place in script_places():
            self.baseline[place.key] = dict(self._plain_items(place, budget))
            for name in place.names:
                if is_array(value := place.variables[name]):
                    self._begun_with[f"{place.path}/{name}"] = weakref.ref(value)
        self._arrays.begin()
        for path, setting in self._settings().items():
            if callable(value := getattr(*setting)):
                self._references.note(path, value)
        self.baseline["", THINGS] = self._set_now()

    def capture(self) -> list[dict[str, Any]]:
        """Return variables that have changed since, outermost frame first; plain values only."""
        budget = self._budget()
        self._references.look_again()
        places = script_places()
        captured = []
        for place in places:
            budget.kinds = {}
            one = self._changed(place.key, dict(self._plain_items(place, budget)))
            one["in_place"] = [name for name in one["variables"] if self._is_as_begun(place, name)]
            kinds = budget.kinds.items()
            one["kinds"] = {path: kind for path, kind in kinds if path.partition("/")[0] in one["variables"]}
            captured.append(one)
        things = self._changed(("", THINGS), self._set_now())
        in_variables = {id(place.variables[name]) for place in places for name in place.names}
        things["variables"] |= self._arrays.changed(in_variables, self.too_large)
        return [*captured, things]

    def _is_as_begun(self, place: Place, name: str) -> bool:
        """Return whether a variable holds the tensor or array that it held when training began."""
        begun = self._begun_with.get(f"{place.path}/{name}")
        return begun is not None and begun() is place.variables.get(name)

    def _set_now(self) -> Variables:
        values = {path: getattr(*place) for path, place in self._settings().items()} | _GLOBALS
        return {path: self._setting(value) for path, value in values.items() if id(value) not in self.ordering}

    def _setting(self, value: Any) -> Any:
        if is_generator(value):
            return {GENERATOR: script_random.as_text(value)}
        return self._references.to(value) or {OTHER: what(value)} if callable(value) else value

    def _changed(self, key: tuple[str, str], values: Variables) -> dict[str, Any]:
        before, changed = self.baseline.get(key, {}), self.changed.setdefault(key, set())
        changed.update(n for n, value in values.items() if n not in before or not _same(value, before[n]))
        file, function = key
        variables = {name: value for name, value in values.items() if name in changed}
        return {"function": function, "file": file, "variables": variables}

    def _settings(self) -> dict[str, tuple[Any, str]]:
        """Return (object, attribute) of each plain attribute of the things, by path."""
        found: dict[str, tuple[Any, str]] = {}
        seen: set[int] = set()
        for name, thing in self.things.items():
            _find_settings(name, thing, SETTINGS_DEPTH, found, seen)
        return found

    def _budget(self) -> _Budget:
        """Return the budget: as much as a few copies of the models need."""
        sizes = (p.numel() * p.element_size() for model in self.models for p in model.parameters())
        bytes = MOST_BYTES + COPIES * sum(sizes)
        return _Budget(bytes, self.models, self.ordering, self._set_up, self.too_large, self._references)

    def _plain_items(self, place: Place, budget: _Budget) -> Iterator[tuple[str, Any]]:
        budget.clocks = place.frame is not None and _reads_clock(place.frame.f_code.co_filename)
        for name in place.names:
            if is_of_place(name, place.variables[name]):
                continue
            value = place.variables[name]
            budget.path = [place.path]
            try:
                yield name, _within(name, value, budget, DEPTH, named=True)
            except _TooLarge:
                self.too_large.add(name)
            except (_NotPlain, TypeError):  # a set of the script's objects, or keys that are such objects
                if (told := other(value)) is not None:
                    yield name, told

    def apply(self, captured: Sequence[dict[str, Any]], wanted: Callable[[str, Any], bool] | None = None) -> None:
        """Put variables into the frames of the same functions that run here; only those that are `wanted`.

        `wanted(path, value)` is asked of each variable, and of each attribute of the script's objects.
        """
        waiting = list(captured)
        self._made = {}
        for one in waiting:
            self.changed.setdefault((one["file"], one["function"]), set()).update(one["variables"])
        for place in script_places():
            index = next((i for i, one in enumerate(waiting) if (one["file"], one["function"]) == place.key), None)
            if index is not None:
                variables = waiting[index]["variables"]
                if wanted is not None:
                    variables = _only(variables, wanted, place.path)
                self._write(place, waiting[index] | {"variables": variables}, all_of_it=wanted is None)
                waiting = waiting[index + 1 :]
        settings, self._kinds = self._settings(), {}
        for one in waiting:
            for path, value in one["variables"].items() if one["function"] == THINGS else ():
                if path in _GLOBALS:
                    script_random.from_text(_GLOBALS[path], value[GENERATOR])
                elif isinstance(value, dict) and ARRAY in value:
                    if wanted is None:
                        self._arrays.put(path, value[ARRAY])
                elif path in settings:
                    self._set(path, settings[path], value)

    def _set(self, path: str, setting: tuple[Any, str], value: Any) -> None:
        try:
            merged = self._merged(getattr(*setting), value)
        except NotMade as why:
            raise NotMade(f"{path.replace('//', '.')} cannot be taken over: {why}") from None
        if merged is not getattr(*setting):
            setattr(*setting, merged)

    def _write(self, place: Place, captured: Mapping[str, Any], all_of_it: bool) -> None:
        in_place, self._kinds = captured.get("in_place", ()), captured.get("kinds", {})
        there, merged = dict(place.variables), {}
        for name, value in captured["variables"].items():
            if name in in_place and self._is_as_begun(place, name) and fits(there[name], value):
                write(there[name], value)
                continue
            try:
                merged[name] = self._merged(there.get(name), value, name)
            except NotMade as why:
                if name in there and all_of_it:  # else the script makes it itself, later
                    raise NotMade(f"the variable {name} cannot be taken over: {why}") from None
        place.variables.update(merged)  # at once, because whoever looks at frames in between undoes it
        place.settle()

    def _merged(self, mine: Any, value: Any, path: str = "") -> Any:
        """Return `value`, put into the object that stands there, so that all who hold that see it.

        `path`: of what stands there, from the frame's variables on.
        """
        if isinstance(value, dict) and MODEL in value:
            model, of = mine, self.models[value[MODEL]]
            is_copy = isinstance(mine, torch.nn.Module) and not any(mine is one for one in self.models)
            if not is_copy or shape_of(mine) != [(n, tuple(t.shape)) for n, t in value["state"].items()]:
                model = AveragedModel(of) if value.get("averaged") else copy.deepcopy(of)
            model.load_state_dict(value["state"])
            return model
        if isinstance(value, dict) and CLOCK in value:
            return time.monotonic() - value["ago"]
        if isinstance(value, dict) and GENERATOR in value:
            if mine is None:
                raise NotMade("a random generator cannot be made here")
            if is_generator(mine):
                script_random.from_text(mine, value[GENERATOR])
            return mine
        if isinstance(value, dict) and REFERENCE in value:
            return self._references.found(value[REFERENCE])
        if isinstance(value, dict) and OTHER in value:
            return must_be(mine, value[OTHER])
        if isinstance(value, dict) and ATTRIBUTES in value:
            return self._object_merged(mine, value, path)
        if type(value) in (list, tuple):
            return self._items_merged(_of_kind(self._kinds.get(path), mine), value, path)
        if isinstance(value, dict):
            mine = _of_kind(self._kinds.get(path), mine)
            held = mine if isinstance(mine, dict) else {}
            kept = {key: self._merged(held.get(key), item, f"{path}/{key}") for key, item in value.items()}
            if not counts_by_key(kept):  # of words, say, of which "host" is one
                kept |= {key: item for key, item in held.items() if is_of_place(key, item)}
            if not isinstance(mine, dict):
                return type(value)(kept)
            mine.clear()
            mine.update(kept)
            return mine
        if isinstance(mine, torch.Tensor) and isinstance(value, torch.Tensor):
            return value.to(mine.device)
        return value

    def _object_merged(self, mine: Any, value: dict[str, Any], path: str) -> Any:
        name, same = value[ATTRIBUTES], value.get("same")
        if same in self._made:
            return self._made[same]
        is_new = mine is None
        if is_new:
            mine = made(value["module"], name, value.get("left", []))
        elif type(mine).__qualname__ != name:
            return mine
        if same is not None:
            self._made[same] = mine
        if _has_names(mine):
            named = value["values"].items()
            return mine._replace(**{n: self._merged(getattr(mine, n), v, f"{path}/{n}") for n, v in named})
        held = holdings_of(mine)
        if held is None:
            return mine
        for name, attribute in value["values"].items():
            if name in held or not isinstance(mine, FunctionType):
                try:
                    held[name] = self._merged(held.get(name), attribute, f"{path}/{name}")
                except NotMade:
                    if is_new or name in held:  # else the script makes it itself, later
                        raise
        return mine

    def _items_merged(self, mine: Any, value: list[Any] | tuple[Any, ...], path: str) -> Any:
        held = list(mine) if isinstance(mine, list | tuple | deque) else []
        if len(value) > MOST_ITEMS:  # a list of plain numbers
            items = list(value)
        else:
            held += [None] * (len(value) - len(held))
            items = [self._merged(m, v, f"{path}/{i}") for i, (m, v) in enumerate(zip(held, value, strict=False))]
        if isinstance(mine, deque):
            mine.clear()
            mine.extend(items)
            return mine
        if isinstance(mine, list) and isinstance(value, list):
            mine[:] = items
            return mine
        return type(value)(items)


@dataclass
class _Budget:
    """What is known while variables are copied.

    seen: what stands for objects of the script's classes, by id; they are kept where they are met first.
    set_up: how what is too large was when training began (`begins`), by id. Nobody misses it while it stays so.
    left: names of attributes that are too large.
    clocks: whether numbers may be readings of a clock.
    path: the path of what is looked at.
    kinds: of containers that travel as plain lists and mappings (`kind_of`), by path from a frame's variables on.
    """

    bytes: int
    models: Sequence[torch.nn.Module]
    ordering: Set[int]
    set_up: dict[int, int]
    left: set[str]
    references: References
    begins: bool = False
    clocks: bool = False
    seen: dict[int, dict[str, Any]] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)

    def refer(self, value: Any) -> dict[str, str] | None:
        """Return what stands for an object that every process has; None where the object is at its own path."""
        path = "/".join(self.path)
        if self.begins:
            self.references.note(path, value)
        home = self.references.paths.get(id(value))
        return None if home is None or home == path else self.references.to(value)

    def refer_home(self, value: Any) -> dict[str, str] | None:
        """Return the same for an object whose values travel from its own path, while it is still there."""
        home = self.references.paths.get(id(value), "")
        return self.refer(value) if self.begins or self.references.is_at(home, value) else None

    def take(self, count: int) -> None:
        if count > self.bytes:
            raise _TooLarge
        self.bytes -= count

    def take_for(self, value: Any, count: int) -> None:
        """Return the same for a value that the script may have set up."""
        if count <= self.bytes:
            self.bytes -= count
            return
        if isinstance(value, torch.Tensor):
            extent = value.numel() if value.is_inference() else value._version
        else:
            extent = len(value)
        if self.begins:
            self.set_up[id(value)] = extent
        raise _NotPlain if self.set_up.get(id(value)) == extent else _TooLarge


def _find_settings(path: str, thing: Any, depth: int, found: dict[str, tuple[Any, str]], seen: set[int]) -> None:
    if isinstance(thing, list | tuple):
        for i, item in enumerate(thing[:MOST_PARTS]):
            _find_settings(f"{path}/{i}", item, depth - 1, found, seen)
        return
    is_function = isinstance(thing, type) or inspect.isroutine(thing) or inspect.ismodule(thing)
    if depth == 0 or id(thing) in seen or is_function or not hasattr(thing, "__dict__"):
        return
    seen.add(id(thing))
    children = dict(thing.named_modules()) if isinstance(thing, torch.nn.Module) else {"": thing}
    for place, child in children.items():
        for name, value in vars(child).items():
            if name.startswith("_"):
                continue
            if type(value) in _SCALARS or is_generator(value):
                found[f"{path}/{place}/{name}"] = (child, name)
                continue
            if callable(value) and not isinstance(child, torch.nn.Module):  # such as transforms
                found[f"{path}/{place}/{name}"] = (child, name)
            if not isinstance(value, torch.Tensor | torch.nn.Module | np.ndarray | dict):
                _find_settings(f"{path}/{place}/{name}", value, depth - 1, found, seen)


def _of_kind(kind: str | None, mine: Any) -> Any:
    """Return `mine`, or an empty container of a kind that it is not of; `mine` also where none can be made."""
    if kind is None or kind_of(mine) == kind:
        return mine
    try:
        return empty(kind)
    except NotMade:
        return mine


def shape_of(model: torch.nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    """Return what tells whether one model's state fits another."""
    return [(name, tuple(value.shape)) for name, value in model.state_dict().items()]


def _only(values: Mapping[str, Any], wanted: Callable[[str, Any], bool], path: str) -> dict[str, Any]:
    """Return the variables, or an object's attributes, that are wanted."""
    found = {}
    for name, value in values.items():
        place = f"{path}/{name}"
        if isinstance(value, dict) and ATTRIBUTES in value:
            kept = _only(value["values"], wanted, place)
            left = [*value.get("left", ()), *(value["values"].keys() - kept.keys())]
            found[name] = {**value, "values": kept, "left": left}
        elif wanted(place, value):
            found[name] = value
    return found


def _plain(value: Any, budget: _Budget, depth: int) -> Any:
    """Return a copy of a plain value; raises `_NotPlain` for any other."""
    kind = type(value)
    if kind in (bool, int, float, complex, type(None)):
        return value
    if isinstance(value, Undue):
        return int(value)
    if kind in (str, bytes):
        budget.take(len(value))
        return value
    if isinstance(value, torch.Tensor):
        return _plain_tensor(value, budget)
    if isinstance(value, torch.nn.Module) and not is_metric(value):
        if (reference := budget.refer(value)) is not None:
            return reference
        try:
            return _plain_model(value, budget)
        except _NotPlain:
            return _reference(value, budget)
    if (
        is_referred(value)
        and not is_metric(value)
        and not (isinstance(value, FunctionType) and holdings_of(value) is not None)
    ):
        budget.refer(value)
        return _reference(value, budget)
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype == object:
            raise _NotPlain
        budget.take(value.nbytes)
        return value.copy()
    if is_generator(value):
        if id(value) in budget.ordering:
            raise _NotPlain
        return {GENERATOR: script_random.as_text(value)}
    if depth == 0:
        raise _NotPlain
    if (like := kind_of(value)) is not None:
        budget.kinds["/".join(budget.path[1:])] = like
    if kind in (list, tuple, set, frozenset, deque):
        is_long = len(value) > MOST_ITEMS
        budget.take_for(value, _TOO_MUCH if is_long and not set(map(type, value)) <= _NUMBERS else 8 * len(value))
        if is_long or set(map(type, value)) <= _NUMBERS:
            items = list(value)
        else:
            items = [_within(i, item, budget, depth - 1) for i, item in enumerate(value)]
        return items if kind is deque else kind(items)
    if kind in (dict, Counter, OrderedDict) or isinstance(value, dict):
        budget.take_for(value, _TOO_MUCH if len(value) > MOST_ITEMS else 8 * len(value))
        pairs = {_plain(k, budget, 1): _within(k, v, budget, depth - 1) for k, v in value.items()}
        return Counter(pairs) if kind is Counter else pairs
    held = value._asdict() if _has_names(value) else holdings_of(value)
    if held is None:
        raise _NotPlain
    return _plain_object(value, held, budget, depth)


def _plain_object(value: Any, held: Mapping[str, Any], budget: _Budget, depth: int) -> dict[str, Any]:
    """Return what stands for an object: "values" by name, and how to make one like it.

    Attributes in "left" do not travel. An object with "same" is met several times, and its values are where it is
    met first.
    """
    if not isinstance(value, tuple) and (reference := budget.refer_home(value)) is not None:
        return reference
    kind = type(value)
    plain: dict[str, Any] = {ATTRIBUTES: kind.__qualname__, "module": kind.__module__, "values": {}}
    if (first := budget.seen.get(id(value))) is not None:
        return plain | {"same": first.setdefault("same", str(id(value))), "left": list(held)}
    if not isinstance(value, tuple):
        budget.seen[id(value)] = plain
    left: list[str] = []
    for name, attribute in list(held.items()):
        try:
            if is_of_place(name, attribute):
                raise _NotPlain
            plain["values"][name] = _within(name, attribute, budget, depth - 1, named=True)
        except _NotPlain as why:
            left.append(name)
            if (told := other(attribute)) is not None:
                plain["values"][name] = told
            if isinstance(why, _TooLarge):
                budget.left.add(f"{kind.__qualname__}.{name}")
    plain["left"] = left
    return plain


def _has_names(value: Any) -> bool:
    """Return whether it is a tuple with names."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _within(key: Any, value: Any, budget: _Budget, depth: int, named: bool = False) -> Any:
    """Return the same for what stands under a key or, `named`, for a variable or an attribute."""
    budget.path.append(str(key))
    try:
        return _as_of_now(value, budget, depth) if named else _plain(value, budget, depth)
    finally:
        budget.path.pop()


def _reference(value: Any, budget: _Budget) -> dict[str, str]:
    reference = budget.references.to(value)
    if reference is None:
        raise _NotPlain
    return reference


def _as_of_now(value: Any, budget: _Budget, depth: int) -> Any:
    """Return the same for a variable or an attribute; for a reading of a clock, how long ago it was."""
    if budget.clocks and type(value) is float and _is_reading(value):
        return {CLOCK: value, "ago": time.monotonic() - value}
    return _plain(value, budget, depth)


def _is_reading(value: float) -> bool:
    """Return whether `time.monotonic` may have said so since this process began.

    On Linux `perf_counter` is the same clock. Its readings are whole nanoseconds, which few other numbers in its
    range are.
    """
    if not _BEGUN_S <= value <= time.monotonic():
        return False
    nanoseconds = round(value * 1e9)
    return nanoseconds / 1e9 == value and nanoseconds % 1000 != 0


@functools.cache
def _reads_clock(file: str) -> bool:
    """Return whether a file of the script's reads such a clock."""
    try:
        text = Path(file).read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return "monotonic" in text or "perf_counter" in text


def _plain_model(value: torch.nn.Module, budget: _Budget) -> dict[str, Any]:
    """Return a copy of a prepared model, such as the best one so far: its state, and which model it copies."""
    if any(value is model for model in budget.models):
        raise _NotPlain
    averaged = type(value) is AveragedModel and value.avg_fn is None and value.multi_avg_fn is None
    inner = value.module if averaged else value
    shape = shape_of(inner) if isinstance(inner, torch.nn.Module) else []
    place = next((i for i, model in enumerate(budget.models) if shape_of(model) == shape), None)
    if place is None:
        raise _NotPlain
    state = {name: _plain_tensor(tensor.detach(), budget) for name, tensor in value.state_dict().items()}
    return {MODEL: place, "averaged": averaged, "state": state}


def _plain_tensor(value: torch.Tensor, budget: _Budget) -> torch.Tensor:
    if isinstance(value, torch.nn.Parameter) or value.layout is not torch.strided:
        raise _NotPlain
    if value.requires_grad and value.numel() > 1024:
        raise _NotPlain
    budget.take_for(value, value.numel() * value.element_size())
    return value.detach().to("cpu", copy=True)


def _same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(a, b))
    if isinstance(a, np.ndarray | np.generic):
        return bool(np.array_equal(a, b))
    if isinstance(a, dict) and CLOCK in a:
        return bool(a[CLOCK] == b.get(CLOCK))
    if isinstance(a, dict) and ATTRIBUTES in a:
        return bool(a[ATTRIBUTES] == b.get(ATTRIBUTES)) and _same(a["values"], b["values"])
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple | deque):
        if len(a) > MOST_ITEMS:
            return bool(a == b)
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b) or (a != a and b != b)
