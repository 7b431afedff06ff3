"""Says who changed what, and takes note of changes that were made or refused elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..access.audit import AuditLog


class AuditDesk:
    """Answers for the audit log. A change that a desk makes is kept by `Desks.audited`."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log

    def done(self, about: Mapping[str, str]) -> None:
        """Keep that a change was made."""
        self._log.run(about, lambda: None)

    def refused(self, about: Mapping[str, str], why: str) -> None:
        """Keep that a change was not let through."""
        self._log.refused(about, why)

    def audit(self, after: int | None, most: int, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return a page of the audit log, as `AuditLog.page` does."""
        return self._log.page(after, most, **chosen)
