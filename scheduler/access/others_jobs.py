"""Leaves out of texts on the cluster what a user may not read: names of others' jobs, and what they raised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...core.events import EventKind
from ...core.identity import Reader
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
        # Owner and team, which never change; pages of rounds name the same jobs again and again.
        self._owners: dict[str, tuple[str, str]] = {}

    def may_read(self, job_id: str, reader: Reader) -> bool:
        """Return whether a user is told of a job; one that was removed is nobody's."""
        whose = self._whose(job_id)
        return whose is not None and reader.may_read(*whose)

    def hidden(self, view: Any, reader: Reader | None) -> Any:
        """Return plain data in whose texts jobs of others are just "a job"; `reader`: None: also one's own."""
        if isinstance(view, str):
            view = view if len(view) <= MOST_TEXT else f"{view[:MOST_TEXT]}…"
            return _ID.sub(lambda found: self._shown(found, reader), view)
        if isinstance(view, Mapping):
            return {key: self.hidden(value, reader) for key, value in view.items()}
        return [self.hidden(one, reader) for one in view] if isinstance(view, list | tuple) else view

    def error(self, text: str, reader: Reader | None) -> str:
        """Return what an error is of, and not what was raised: that may tell anything of anybody's job."""
        what, colon, _ = text.partition(": ")
        return self.hidden(f"{what}; operators see why" if colon else text, reader)

    def _shown(self, found: re.Match[str], reader: Reader | None) -> str:
        whose = self._whose(found["id"])
        if whose is None or (reader is not None and reader.may_read(*whose)):  # a node may be called so, too
            return found[0]
        return "A job" if (found["said"] or "").startswith("J") else "a job"

    def _whose(self, job_id: str) -> tuple[str, str] | None:
        """Return the owner and the team of a job; None: there is none."""
        known = self._owners.get(job_id)
        if known is None and (job := self._store.find(job_id)) is not None:
            if len(self._owners) >= MOST_KNOWN:
                self._owners.clear()
            known = self._owners[job_id] = job.owner, job.spec.team or ""
        return known


def told_of_cluster(event: Mapping[str, Any], others: OthersJobs, reader: Reader | None) -> dict[str, Any]:
    """Return an event of the cluster as it is told to users; `reader`: who may read names of some jobs."""
    hide = others.error if event["kind"] == EventKind.ERROR.value else others.hidden
    return {**event, "text": hide(event["text"], reader)}
