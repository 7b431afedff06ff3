"""Backups of the store that the service writes by itself, now and then."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select

from ...core.errors import StoreError
from ...core.settings import Settings
from ..runtime.clock import Clock
from ..store import backup
from ..store.schema import jobs
from ..store.store import Store

FACT = "backed_up_s"  # of the store: when the last regular backup was, by the steady clock
REGULAR, ASKED = "regular", "asked"
RETRY_S = 600.0  # after one that failed
HOUR_S = 3600.0


@dataclass(frozen=True)
class Backup:
    """A backup that was written."""

    path: Path
    bytes: int
    jobs: int


class Backups:
    """The backups in the state directory. Regular ones are removed when there are more than are kept."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store, self._settings, self._clock = store, settings, clock
        self._failed_s = -math.inf
        self.trouble = ""  # why the last regular one failed
        self._last_s = self._read_last()

    def write(self, kind: str = ASKED) -> Backup:
        """Write a backup now, while others use the store. Raises: StoreError."""
        folder = self._settings.backup_dir
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(self._clock.wall_s()))
        path = next(one for one in _names(folder, f"{kind}-{stamp}") if not one.exists())
        backup.write(self._store.database, path)
        with self._store.database.reading() as connection:
            many = connection.scalar(select(func.count()).select_from(jobs)) or 0
        return Backup(path, path.stat().st_size, many)

    def keep_up(self) -> Backup | None:
        """Write a regular backup if it is time. One that fails is told, and tried again later."""
        hours, now = self._settings.backup_hours, self._clock.steady_s()
        if not hours or self._clock.monotonic_s() - self._failed_s < RETRY_S:
            return None
        if self._last_s is None:  # of a new store
            self._note(now)
        if self._last_s is None or now - self._last_s < hours * HOUR_S:
            return None
        try:
            written = self.write(REGULAR)
        except (StoreError, OSError) as error:
            self.trouble, self._failed_s = str(error), self._clock.monotonic_s()
            return None
        self.trouble = ""
        self._note(now)
        for path in sorted(self._settings.backup_dir.glob(f"{REGULAR}-*.sqlite"))[: -self._settings.backups_kept]:
            path.unlink(missing_ok=True)
        return written

    def age_s(self) -> float | None:
        """Return seconds since the last regular one, or since the store was made; None: there are none."""
        last_s = self._last_s if self._settings.backup_hours else None
        return None if last_s is None else max(self._clock.steady_s() - last_s, 0.0)

    def _note(self, now: float) -> None:
        self._store.write_fact(FACT, repr(now))
        self._last_s = now

    def _read_last(self) -> float | None:
        last = self._store.read_fact(FACT)
        return None if last is None else float(last)

    def notes(self) -> list[str]:
        """Return sentences for an operator."""
        return [f"the last backup failed: {self.trouble}"] if self.trouble else []

    def part(self, name: str, offset: int, most: int) -> bytes:
        """Return a part of a backup by its name. Raises: StoreError where there is none."""
        path = self._settings.backup_dir / name
        if Path(name).name != name or not path.is_file():
            raise StoreError(f"{name}: there is no such backup")
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(most)


def _names(folder: Path, stem: str) -> list[Path]:
    return [folder / f"{stem}.sqlite", *(folder / f"{stem}-{at}.sqlite" for at in range(2, 1000))]
