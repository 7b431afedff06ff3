"""The studies that this API keeps: their folders, and the actors that drive them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..tuning.live.store import FILE, Asked, StudyStore
from ..tuning.live.views import study_ids, study_row, study_view
from ..tuning.study_file import StudyFile, deadline_problem

Begin = Callable[[str, Path], None]


class Studies:
    """Keeps studies below a folder, each in one of its own.

    Args:
        begin: starts the actor of a study unless it is there, by its id and its folder.
        look: tells the actor of a study that something has changed.
    """

    def __init__(self, folder: Path, begin: Begin, look: Callable[[str], None]) -> None:
        self._folder, self._begin, self._look = folder, begin, look
        self._lock = threading.Lock()

    def begin(
        self, name: str, owner: str, now_s: float, file: dict[str, Any], told: dict[str, Any], key: str, token: str
    ) -> str:
        """Keep a new study and start its actor; return its id. The same key again returns the same study."""
        with self._lock:
            numbers = [int(id.rpartition(":")[2]) for id in self.ids()]
            id = f"{name}:{max(numbers, default=0) + 1}"
            asked = Asked(id, owner, now_s, file, {**told, "key": key})
            StudyStore.begin(self._folder / id, asked, token).close()
        self._begin(id, self._folder / id)
        return id

    def known(self, key: str, owner: str) -> str | None:
        """Return the study that came with a key; None: none did."""
        for id in self.ids():
            asked = self._asked(id)
            if asked.told.get("key") == key and asked.owner == owner:
                return id
        return None

    def deadline_problem(self, study: StudyFile, told: Mapping[str, Any], owner: str) -> str:
        """Return why the deadline is too short, by what earlier studies of the same job have measured, or ""."""
        if study.deadline is None:
            return ""
        found = [self._target_epoch_s(id, told, owner) for id in self.ids()]
        times = [seconds for seconds in found if seconds is not None]
        return deadline_problem(study, min(times)) if times else ""

    def _target_epoch_s(self, id: str, told: Mapping[str, Any], owner: str) -> float | None:
        """Return the seconds of an epoch of a study's target; None: not known, or it is of another job."""
        store = StudyStore(self._folder / id)
        try:
            asked = store.asked
            same = asked.owner == owner and bool(told.get("script_key")) and _timed(asked.told) == _timed(told)
            return store.target_epoch_s if same else None
        finally:
            store.close()

    def ids(self) -> list[str]:
        """Return the ids of all studies, the oldest first."""
        return study_ids(self._folder)

    def owner(self, id: str) -> str:
        """Return whose a study is. Raises: KeyError for an unknown one."""
        return self._asked(id).owner

    def rows(self, owner: str | None) -> list[dict[str, Any]]:
        """Return the studies of a user in a line each; None: of all."""
        rows = [study_row(self._folder / id) for id in self.ids()]
        return [row for row in rows if owner is None or row["owner"] == owner]

    def view(self, id: str) -> Mapping[str, Any]:
        """Return all that is known of a study. Raises: KeyError for an unknown one."""
        self._asked(id)
        return study_view(self._folder / id)

    def cancel(self, id: str) -> bool:
        """End a study and its jobs; return False where it was over. Raises: KeyError for an unknown one."""
        self._asked(id)
        store = StudyStore(self._folder / id)
        try:
            if store.cancelled or store.state.finished:
                return False
            store.cancel()
        finally:
            store.close()
        self._look(id)
        return True

    def go_on(self) -> None:
        """Start the actors of studies that are not over, as after a start of the cluster."""
        for id in self.ids():
            row = study_row(self._folder / id)
            if row["status"] in ("searching", "training the target"):
                self._begin(id, self._folder / id)

    def _asked(self, id: str) -> Asked:
        folder = self._folder / id
        if "/" in id or not (folder / FILE).exists():
            raise KeyError(f"no study {id}")
        store = StudyStore(folder)
        try:
            return store.asked
        finally:
            store.close()


def _timed(told: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what decides how long an epoch of a job takes."""
    spec = told["spec"]
    return told.get("script_key"), spec.get("resources"), spec.get("training"), spec.get("pool")
