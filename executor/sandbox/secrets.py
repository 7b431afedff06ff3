"""The secrets of a job in its executor: in memory only, and never in what is printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.errors import SecretError

Given = Mapping[str, Any]  # `values` by variable, and the `problem` with one of them, or ""


class GivenSecrets:
    """What the service has given last."""

    def __init__(self) -> None:
        self._given: Given = {"values": {}, "problem": ""}

    def take(self, given: Given | None) -> None:
        """Take what is given; None changes nothing."""
        if given is not None:
            self._given = given

    def values(self) -> dict[str, str]:
        """Return the variables of a process. Raises: SecretError where one is missing, in one sentence."""
        if problem := self._given["problem"]:
            raise SecretError(problem)
        return dict(self._given["values"])
