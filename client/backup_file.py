"""Fetches a backup of the job store from the service."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Protocol

from ..core.errors import StoreError
from ..core.schemas import BackupView


class Source(Protocol):
    """The client, as far as it is needed here."""

    def backup_part(self, name: str, offset: int) -> bytes:
        """Return a backup from an offset on, as much as is sent at once."""


def fetched_backup(source: Source, found: BackupView, file: Path) -> BackupView:
    """Write a backup into a file, which only this user may read. Raises: StoreError; nothing half-done is left."""
    partial = file.with_name(f"{file.name}.part")
    name, done = PurePath(found["path"]).name, 0
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as writing:
            while done < found["bytes"] and (part := source.backup_part(name, done)):
                done += writing.write(part)
            os.fsync(writing.fileno())
        if done != found["bytes"]:
            raise StoreError(f"{file}: {done} of {found['bytes']} bytes of the backup have arrived")
        os.replace(partial, file)
    except OSError as error:
        raise StoreError(f"{file}: the backup cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return {**found, "path": str(file)}
