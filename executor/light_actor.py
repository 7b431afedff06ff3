"""Actors whose handles load nothing.

Whoever receives the handle of a Ray actor imports the module of its class, such as a solver with its compiler. An
actor made of `light(Class)` imports that module in its own process only.
"""

from __future__ import annotations

import importlib
import inspect
import pickle
from collections.abc import Callable
from typing import Any

from ..estimators.compiling import do_without


def light(actor: type, first: Callable[[], object] | None = None) -> type:
    """Return a class with the public methods of `actor`, which creates an `actor` in its own process.

    The class belongs to no module, so that Ray sends its code by value.

    Args:
        first: a function of a module, which the process calls before it imports the module of `actor`. Then the
            actor's arguments are pickled.
    """
    module, name = actor.__module__, actor.__qualname__
    prepares = None if first is None else (first.__module__, first.__qualname__)

    def start(self: Any, *args: Any, **options: Any) -> None:
        if prepares is not None:
            getattr(importlib.import_module(prepares[0]), prepares[1])()
            args = tuple(pickle.loads(one) for one in args)
        self.actor = getattr(importlib.import_module(module), name)(*args, **options)

    def passing_on(method: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **options: Any) -> Any:
            return getattr(self.actor, method)(*args, **options)

        return call

    public = [name for name, _ in inspect.getmembers(actor, inspect.isfunction) if not name.startswith("_")]
    return type(name, (), {"__init__": start, **{method: passing_on(method) for method in public}})


def executor_class(executor: type) -> type:
    """Return the class of a job's executor as a light actor, whose process neither compiles nor loads torch.

    Its one argument is a job as `packed` returns it. Else Ray would load what the job is made of too early.
    """
    return light(executor, do_without)


def packed(job: object) -> bytes:
    """Return what an `executor_class` is made with."""
    return pickle.dumps(job)
