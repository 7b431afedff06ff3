"""The audit log: who changed what, in rows that are chained by their hashes. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

FIRST = "0" * 64  # the hash before the first row
PRUNED = "audit.pruned"  # the verb of a row that says which rows before were removed
DONE = "done"


@dataclass(frozen=True)
class AuditRow:
    """One change that somebody asked for, or tried.

    time_s: seconds since 1970 by the machine's clock.
    origin: the address that the request came from. request: its id.
    verb: what was asked, such as `job.cancel`. target: of what.
    outcome: `done`, or why not.
    detail: `before` and `after`, as far as they differ. Nothing secret stands there.
    previous: the hash of the row before. hash: of this row with that.
    """

    number: int
    time_s: float
    user: str
    role: str
    origin: str
    request: str
    verb: str
    target: str
    outcome: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    previous: str = FIRST
    hash: str = ""

    def hashed(self) -> str:
        """Return the hash that belongs to this row."""
        told = asdict(self)
        del told["hash"]
        return hashlib.sha256(plain(told).encode()).hexdigest()


def plain(value: object) -> str:
    """Return a value as the one JSON text that stands for it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


class ChainCheck:
    """Looks over rows, oldest first, and names the first one that does not fit."""

    def __init__(self) -> None:
        self.rows = 0
        self.broken = ""  # one sentence; "": nothing is broken so far
        self._first: AuditRow | None = None
        self._last = 0, FIRST
        self._removed = 0, FIRST  # up to which row all were removed, and its hash

    def see(self, row: AuditRow) -> None:
        """Look at the next row."""
        self.rows += 1
        if self._first is None:
            self._first = row
        elif row.previous != self._last[1]:
            self._break(f"row {row.number} does not follow row {self._last[0]}: rows between them are missing")
        if row.hash != row.hashed():
            self._break(f"row {row.number} was changed after it was written")
        if row.verb == PRUNED:
            self._removed = int(row.detail.get("until", 0)), str(row.detail.get("hash", ""))
        self._last = row.number, row.hash

    def end(self, head: tuple[int, str] | None) -> str:
        """Return what is broken, in one sentence; "" for a whole chain.

        Args:
            head: the number and hash of the newest row, as they are told elsewhere; None: they are not told.
        """
        begins = (0, FIRST) if self._first is None else (self._first.number, self._first.previous)
        # Rows are removed a part at a time, and each part is told. So the newest telling is of the oldest row.
        if self._first is not None and begins[1] != self._removed[1]:
            self._break(f"rows before row {begins[0]} are missing, and no row says that they were removed")
        if head is not None and head != self._last:
            self._break(f"rows after row {self._last[0]} are missing: the newest one was row {head[0]}")
        return self.broken

    def _break(self, text: str) -> None:
        self.broken = self.broken or text
