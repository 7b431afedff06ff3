"""Which logs of ended jobs are removed, by age and by size, and who removes them."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...core.events import EventKind
from ...core.settings import Settings
from ..runtime.clock import Clock
from ..store.events import Event
from ..store.failures import StoreFailure
from ..store.store import Store
from .hooks import CycleHook

log = logging.getLogger(__name__)

DAY_S = 86_400.0
GIB = 2**30
EVERY_S = 600.0


@dataclass(frozen=True)
class EndedLog:
    """The log of a job that has ended: whose, how large, and how long ago it was last written to."""

    name: str
    bytes: int
    age_s: float


def to_remove(logs: Sequence[EndedLog], most_age_s: float, most_bytes: int) -> dict[str, str]:
    """Return the logs to remove, each with why: all that are too old, then the oldest until the rest fits."""
    found = {one.name: f"it is older than {most_age_s / DAY_S:g} days" for one in logs if one.age_s > most_age_s}
    kept = sorted((one for one in logs if one.name not in found), key=lambda one: (-one.age_s, one.name))
    left = sum(one.bytes for one in kept)
    for one in kept:
        if left <= most_bytes:
            break
        found[one.name] = f"logs of ended jobs take more than {most_bytes / GIB:g} GiB"
        left -= one.bytes
    return found


def ended_logs(root: Path, active: Container[str], now: float) -> list[EndedLog]:
    """Return the logs below a folder but those of active jobs."""
    found = []
    for folder in root.iterdir() if root.is_dir() else ():
        if folder.name in active or not folder.is_dir():
            continue
        files = []
        for path in folder.iterdir():
            try:
                files.append(path.stat())
            except FileNotFoundError:  # removed since it was listed
                continue
        newest_s = max((file.st_mtime for file in files), default=folder.stat().st_mtime)
        found.append(EndedLog(folder.name, sum(file.st_size for file in files), max(now - newest_s, 0.0)))
    return found


class LogRetention(CycleHook):
    """Removes logs of ended jobs now and then, in a thread, and tells the job's events why."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store, self._settings, self._clock = store, settings, clock
        self._root = settings.log_dir("x").parent
        self._due_s = clock.monotonic_s()
        self._sweeping = threading.Lock()

    def stepped(self, timings: Mapping[str, float]) -> None:
        """Begin a sweep where one is due; no cycle waits for it."""
        now = self._clock.monotonic_s()
        if now >= self._due_s:
            self._due_s = now + EVERY_S
            threading.Thread(target=self.sweep, name="log retention", daemon=True).start()

    def sweep(self, remove: Callable[[Path], None] = shutil.rmtree) -> None:
        """Remove what is not to be kept any more. What cannot be removed stays until the next sweep."""
        settings = self._settings
        with self._sweeping:
            found = ended_logs(self._root, self._store.unretired, self._clock.wall_s())
            limits = settings.log_keep_days * DAY_S, round(settings.log_keep_gib * GIB)
            for name, why in to_remove(found, *limits).items():
                if name in self._store.unretired:  # it goes on again
                    continue
                try:
                    remove(self._root / name)
                except OSError as error:
                    log.warning("log of job %s: %s", name, error)
                    continue
                if self._store.find(name) is not None:
                    text = f"its log was removed: {why}"
                    with suppress(StoreFailure):  # the log of the service has it
                        self._store.log(Event(EventKind.OUTPUTS, self._clock.steady_s(), name, {"text": text}))
                log.info("log of job %s was removed: %s", name, why)
