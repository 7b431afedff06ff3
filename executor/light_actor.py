"""Actors whose handles load nothing.

Whoever gets the handle of a Ray actor imports the module of its class: a solver and its compiler, where one only
wants to send a message. An actor made of `light(Class)` imports that module in its own process alone.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any


def light(actor: type) -> type:
    """A class with the public methods of another, which it makes where it is made itself.

    It belongs to no module, so that Ray sends it as it is.
    """
    module, name = actor.__module__, actor.__qualname__

    def start(self: Any, *args: Any, **options: Any) -> None:
        self.actor = getattr(importlib.import_module(module), name)(*args, **options)

    def passing_on(method: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **options: Any) -> Any:
            return getattr(self.actor, method)(*args, **options)

        return call

    public = [name for name, _ in inspect.getmembers(actor, inspect.isfunction) if not name.startswith("_")]
    return type(name, (), {"__init__": start, **{method: passing_on(method) for method in public}})
