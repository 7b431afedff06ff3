"""A client in tests that knows its jobs by `list`, and answers what commands ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Listed:
    """Chooses from the rows that `list` returns, as the API does."""

    def list(self) -> list[dict[str, Any]]:
        raise NotImplementedError("a test says which jobs there are")

    def jobs(
        self,
        *,
        phases: Sequence[str] = (),
        name: str | None = None,
        ids: Sequence[str] = (),
        most: int | None = None,
    ) -> Sequence[dict[str, Any]]:
        """Return the newest rows that fit, in order of submission."""
        found = [
            row
            for row in self.list()
            if (not phases or row["phase"] in phases)
            and (not ids or row["id"] in ids)
            and name in (None, row["id"], row["name"])
        ]
        return found if most is None else found[-most:]
