"""Actors whose handles load nothing.

Whoever receives the handle of a Ray actor imports the module of its class, such as a solver with its compiler. An
actor made of `light(Class)` imports that module in its own process only.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any


def light(actor: type) -> type:
    """Return a class with the public methods of `actor`, which creates an `actor` in its own process.

    The class belongs to no module, so that Ray sends its code by value.
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
