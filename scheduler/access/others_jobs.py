"""Leaves out of texts on the cluster what a user may not read: names of others' jobs, and what they raised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...core.events import EventKind
from ..store.store import Store

_ID = re.compile(
    r"(?P<said>\bjob )?(?P<quote>['\"]?)\b(?P<id>[A-Za-z0-9][A-Za-z0-9_.-]*-[0-9]+)\b(?P=quote)", re.IGNORECASE
)


MOST_TEXT = 2000  # characters of a text in which names are looked for
MOST_KNOWN = 10_000


class OthersJobs:
    """Tells whose jobs are named in texts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owners: dict[str, str] = {}  # which never change; pages of rounds name the same jobs again and again

    def is_of(self, job_id: str, owner: str) -> bool:
        """Return whether a job is of a user; one that was removed is nobody's."""
        return self._owner(job_id) == owner

    def hidden(self, view: Any, owner: str | None) -> Any:
        """Return plain data in whose texts jobs of others are just "a job"; `owner`: None: also one's own."""
        if isinstance(view, str):
            view = view if len(view) <= MOST_TEXT else f"{view[:MOST_TEXT]}…"
            return _ID.sub(lambda found: self._shown(found, owner), view)
        if isinstance(view, Mapping):
            return {key: self.hidden(value, owner) for key, value in view.items()}
        return [self.hidden(one, owner) for one in view] if isinstance(view, list | tuple) else view

    def error(self, text: str, owner: str | None) -> str:
        """Return what an error is of, and not what was raised: that may tell anything of anybody's job."""
        what, colon, _ = text.partition(": ")
        return self.hidden(f"{what}; operators see why" if colon else text, owner)

    def _shown(self, found: re.Match[str], owner: str | None) -> str:
        whose = self._owner(found["id"])
        if whose is None or whose == owner:  # a node may be called so, too
            return found[0]
        return "A job" if (found["said"] or "").startswith("J") else "a job"

    def _owner(self, job_id: str) -> str | None:
        """Return whose a job is; None: there is none."""
        known = self._owners.get(job_id)
        if known is None and (job := self._store.find(job_id)) is not None:
            if len(self._owners) >= MOST_KNOWN:
                self._owners.clear()
            known = self._owners[job_id] = job.owner
        return known


def told_of_cluster(event: Mapping[str, Any], others: OthersJobs, owner: str | None) -> dict[str, Any]:
    """Return an event of the cluster as it is told to users; `owner`: who may read names of own jobs."""
    hide = others.error if event["kind"] == EventKind.ERROR.value else others.hidden
    return {**event, "text": hide(event["text"], owner)}
