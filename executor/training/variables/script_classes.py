"""Objects of the script's own classes that training has made, and how another process makes them, too."""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any

from .script_frames import script_places

_FACTORIES: dict[str, Any] = {kind.__qualname__: kind for kind in (int, float, list, dict, set)}


class NotMade(ValueError):
    """Raised for something of the script's that this process does not have and cannot make."""


def made(module: str, name: str, left: list[str]) -> Any:
    """Return a new object of a script's class, without its `__init__`. `left`: attributes that stay away."""
    if left:
        raise NotMade(f"an object of {name} holds what cannot be handed on ({', '.join(left)})")
    kind = class_named(module, name)
    try:
        return kind.__new__(kind)
    except TypeError:
        raise NotMade(f"an object of {name} cannot be made here") from None


def class_named(module: str, name: str) -> Any:
    for one in named(module, name):
        if isinstance(one, type) and one.__qualname__ == name:
            return one
    raise NotMade(f"the class {name} is not found here")


def named(module: str, name: str) -> Iterator[Any]:
    """Return what the script has under a qualified name; a class may be a variable of a function that runs."""
    places = script_places()
    last = name.rpartition(".")[2]
    if "<locals>" in name:
        yield from (place.variables[last] for place in places if last in place.variables)
        return
    everywhere = [place.frame.f_globals for place in places if place.frame is not None]
    everywhere = [one for one in everywhere if one.get("__name__") == module]
    if module in sys.modules:
        everywhere.append(vars(sys.modules[module]))
    for variables in everywhere:
        first, *others = name.split(".")
        found = variables.get(first)
        for part in others:
            found = getattr(found, part, None)
        yield found


def kind_of(value: Any) -> str | None:
    """Return how to make an empty one of a container that travels as a plain list or mapping."""
    if isinstance(value, deque):
        return f"deque/{value.maxlen}"
    if type(value) is OrderedDict:
        return "OrderedDict/"
    if type(value) is defaultdict:
        factory = value.default_factory
        return f"defaultdict/{getattr(factory, '__module__', '')}/{getattr(factory, '__qualname__', None)}"
    return None


def empty(kind: str) -> Any:
    """Return the empty container that `kind_of` describes."""
    name, *told = kind.split("/")
    if name == "deque":
        return deque(maxlen=None if told[0] == "None" else int(told[0]))
    if name == "OrderedDict":
        return OrderedDict()
    module, factory = told
    if factory == "None":
        return defaultdict(None)
    return defaultdict(_FACTORIES.get(factory) or class_named(module, factory))
