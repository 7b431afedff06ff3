"""Finds who answers a question by its name, and keeps who asked for a change."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ..access.audit import AuditLog


class Desks:
    """The public methods of all desks. `methods`: each by its name.

    Raises: ValueError where two desks have a method of the same name.
    """

    def __init__(self, audit: AuditLog, desks: Sequence[object]) -> None:
        self._audit = audit
        self.methods: dict[str, Callable[..., Any]] = {"audited": self.audited}
        for desk in desks:
            for name, method in inspect.getmembers(desk, inspect.ismethod):
                if name.startswith("_"):
                    continue
                if name in self.methods:
                    raise ValueError(f"{name}: two desks have a method of this name, and only one may answer")
                self.methods[name] = method

    def ask(self, method: str, args: Sequence[Any] = ()) -> Any:
        """Return what a method returns. Raises: AttributeError for one that no desk has; what it raises."""
        return self._find(method)(*args)

    def audited(self, about: Mapping[str, str], method: str, args: Sequence[Any]) -> Any:
        """Return what a method that changes something returns, and keep who asked for it, as `AuditLog.run`."""
        return self._audit.run(about, partial(self._find(method), *args))

    def _find(self, method: str) -> Callable[..., Any]:
        try:
            return self.methods[method]
        except KeyError:
            raise AttributeError(f"method: {method!r} is unknown; no desk of the scheduler has it") from None
