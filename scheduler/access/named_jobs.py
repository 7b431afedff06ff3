"""Finds the job that a user names in a job file: by its id, or by a name that only one job has."""

from __future__ import annotations

from ...core.identity import Reader
from ..jobs.record import JobRecord
from ..runtime.applied_teams import AppliedTeams
from ..store import tables
from ..store.store import Store


class NamedJobs:
    """Looks jobs up that a user may read: own ones, and those of own teams."""

    def __init__(self, store: Store, teams: AppliedTeams) -> None:
        self._store, self._teams = store, teams

    def all(self, name: str, user: str) -> list[JobRecord]:
        """Return the job of an id or a name, or all jobs of an array. Raises: KeyError, with a sentence."""
        if "+" not in name:
            return [self.find(name, user)]
        reader = Reader(user, self._teams.of_user(user))
        found = list(self._store.every(tables.chosen((), None, None, (), reader, array=name)))
        if not found:
            raise KeyError(f"no array {name}")
        return found

    def find(self, name: str, user: str) -> JobRecord:
        """Return a job. Raises: KeyError, with a sentence for a person."""
        reader = Reader(user, self._teams.of_user(user))
        found = self._store.page(None, 3, tables.chosen((), None, name, (), reader))
        same = next((job for job in found if job.id == name), None)
        if same is not None:
            return same
        if not found:
            raise KeyError(f"no job {name}")
        if len(found) > 1:
            ids = ", ".join(job.id for job in found[:2])
            raise KeyError(f"several jobs are named {name}, such as {ids}; give the id of one")
        return found[0]
