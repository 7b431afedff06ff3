"""Random generators and plain values that an object of the script holds, as state that can be put back.

Samplers and functions that draw batches often have a generator of their own. It decides what they draw next,
together with a few numbers beside it. Both are found by looking, since such objects rarely have a `state_dict`.
"""

from __future__ import annotations

import json
import random
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

# Attributes of attributes are looked at as deep as this.
DEPTH = 3
GENERATORS = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)
_PLAIN = (bool, int, float, type(None))
_UNBOUND = object()  # what a variable of a closure holds before it is set


# What `random.…` and `np.random.…` draw from, where a script has no generator of its own.
GLOBALS: tuple[random.Random, np.random.RandomState] = (random._inst, np.random.mtrand._rand)


def capture(thing: Any) -> dict[str, Any]:
    """Return states of generators and plain attributes reachable from `thing`, by path; plain Python values."""
    found = {}
    for path, owner, name, depth in _places(thing):
        state = _state(_get(owner, name), plain=depth == 0)
        if state is not None:
            found[path] = state
    return found


def restore(thing: Any, states: Mapping[str, Any]) -> None:
    """Put the generators and attributes found by `capture` back; what is no longer there is left out."""
    for path, owner, name, _ in list(_places(thing)):
        if path in states:
            _put(owner, name, states[path])


def alike(a: Any, b: Any) -> bool:
    """Return whether two captured states are the same."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, torch.Tensor | np.ndarray):
        return type(a) is type(b) and a.shape == b.shape and bool(np.all(np.asarray(a) == np.asarray(b)))
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(alike, a, b))
    return bool(a == b or (a != a and b != b))  # NaN is like NaN


def generators_of(things: Iterable[Any]) -> set[int]:
    """Return the ids of all generators reachable from these."""
    found = (_get(owner, name) for thing in things for _, owner, name, _ in _places(thing))
    return {id(value) for value in found if is_generator(value)}


def state_of(generator: Any) -> Mapping[str, Any]:
    """Return a generator's state."""
    state: Mapping[str, Any] = _state(generator, plain=False)
    return state


def put_back(generator: Any, state: Mapping[str, Any]) -> None:
    """Put a generator where `state_of` found it."""
    _set_generator(generator, state)


def as_text(generator: Any) -> str:
    """Return a generator's state as JSON."""
    return json.dumps(_state(generator, plain=False), default=lambda array: array.tolist())


def from_text(generator: Any, text: str) -> None:
    """Put a generator where one of its type was; one of another type stays as it is."""
    state = json.loads(text)
    if "torch" in state:
        state["torch"] = torch.tensor(state["torch"], dtype=torch.uint8)
    _set_generator(generator, state)


def _places(thing: Any) -> Iterator[tuple[str, Any, Any, int]]:
    """Yield (path, owner, name, depth) of every attribute or closure cell looked at."""
    seen: set[int] = set()
    todo: list[tuple[str, Any, int]] = [("", thing, 0)]
    while todo:
        path, owner, depth = todo.pop(0)
        if id(owner) in seen:
            continue
        seen.add(id(owner))
        for name in _names(owner):
            place = f"{path}.{name}"
            yield place, owner, name, depth
            value = _get(owner, name)
            if depth + 1 < DEPTH and _is_looked_into(value):
                todo.append((place, value, depth + 1))


def _names(owner: Any) -> list[Any]:
    if isinstance(owner, types.MethodType):
        return ["__self__", "__func__"]
    if isinstance(owner, types.FunctionType):
        cells = [f"cell:{name}" for name in owner.__code__.co_freevars]
        used = [name for name in owner.__code__.co_names if name in owner.__globals__]
        return cells + [f"global:{name}" for name in used if is_generator(owner.__globals__[name])]
    return list(getattr(owner, "__dict__", ()))


def _get(owner: Any, name: Any) -> Any:
    if isinstance(owner, types.FunctionType):
        kind, _, bare = name.partition(":")
        if kind == "global":
            return owner.__globals__.get(bare)
        cell = (owner.__closure__ or ())[owner.__code__.co_freevars.index(bare)]
        try:
            return cell.cell_contents
        except ValueError:
            return _UNBOUND
    return getattr(owner, name, None)


def _put(owner: Any, name: Any, state: Any) -> None:
    value = _get(owner, name)
    if is_generator(value):
        _set_generator(value, state)
    elif isinstance(state, Mapping) and "plain" in state and isinstance(value, _PLAIN):
        if isinstance(owner, types.FunctionType):
            (owner.__closure__ or ())[
                owner.__code__.co_freevars.index(name.partition(":")[2])
            ].cell_contents = state["plain"]
        else:
            setattr(owner, name, state["plain"])


def is_generator(value: Any) -> bool:
    return isinstance(value, GENERATORS)


def _is_looked_into(value: Any) -> bool:
    """Return whether to look into it: objects of the script; never data, models and what libraries bring."""
    if isinstance(value, types.FunctionType | types.MethodType):
        return True
    if isinstance(value, torch.Tensor | np.ndarray | torch.nn.Module | type | types.ModuleType) or is_generator(
        value
    ):
        return False
    return hasattr(value, "__dict__")


def _state(value: Any, plain: bool) -> Any:
    match value:
        case np.random.Generator():
            return {"numpy": value.bit_generator.state}
        case np.random.RandomState():
            return {"legacy": value.get_state(legacy=False)}
        case torch.Generator():
            return {"torch": value.get_state()}
        case random.Random():
            version, internal, gauss = value.getstate()
            return {"python": [version, list(internal), gauss]}
    return {"plain": value} if plain and isinstance(value, _PLAIN) else None


def _set_generator(generator: Any, state: Mapping[str, Any]) -> None:
    match generator:
        case np.random.Generator() if "numpy" in state:
            generator.bit_generator.state = dict(state["numpy"])
        case np.random.RandomState() if "legacy" in state:
            generator.set_state(dict(state["legacy"]))
        case torch.Generator() if "torch" in state:
            generator.set_state(state["torch"].cpu())
        case random.Random() if "python" in state:
            version, internal, gauss = state["python"]
            generator.setstate((version, tuple(internal), gauss))
