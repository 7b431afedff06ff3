"""The scheduler as the API sees it."""

from __future__ import annotations

from typing import Any, Protocol


class Scheduler(Protocol):
    """The scheduler, behind its desks. It raises what their method raises."""

    async def call(self, method: str, *args: Any) -> Any:
        """Return what a method of a desk returns."""
