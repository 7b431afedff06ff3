"""Looks after the store: backups, and what retention removes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ...core.output_tree import PART_BYTES
from ..care.backups import Backups
from ..care.pruning import Pruning
from ..runtime.degraded import StoreWatch


class CareDesk:
    """Does at once what housekeeping does now and then."""

    def __init__(self, backups: Backups, pruning: Pruning, watch: StoreWatch) -> None:
        self._backups, self._pruning, self._watch = backups, pruning, watch

    def backup(self) -> dict[str, Any]:
        """Write a backup of the store, and return its `path`, `bytes` and `jobs`. Raises: StoreError."""
        written = self._backups.write()
        return {"path": str(written.path), "bytes": written.bytes, "jobs": written.jobs}

    def backup_part(self, name: str, offset: int) -> bytes:
        """Return up to `PART_BYTES` of a backup from an offset on. Raises: StoreError where there is none."""
        return self._backups.part(name, offset, PART_BYTES)

    def prune(self, dry_run: bool = False) -> Sequence[dict[str, Any]]:
        """Remove what retention does not keep, or only say what that is, as `PrunedRow`s. Raises: StateError."""
        with self._watch.storing():
            return [asdict(one) for one in self._pruning.prune(dry_run=dry_run)]
