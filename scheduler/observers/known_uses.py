"""What earlier jobs of the same script used of their GPUs, for jobs of which nothing was seen yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from ...core.usage import UsageOn
from ..jobs.record import JobRecord
from ..store.store import Store
from .hooks import Change, CycleHook
from .learning import LOOKED_AT, ended_well

MOST_KEPT = 10_000
Key = tuple[str, str, int]  # user, script with its arguments, GPUs that it asks for


class KnownUses(CycleHook):
    """Keeps what the last job of each script used that ended well. Those of other users do not count."""

    def __init__(self, store: Store) -> None:
        self._known: OrderedDict[Key, Mapping[str, UsageOn]] = OrderedDict()
        for job in store.ended_jobs(LOOKED_AT):
            if job.taught and job.usage:
                self._keep((job.owner, job.script_key, job.gpus), job.usage)

    def changed(self, change: Change) -> None:
        """Take note of a job that has ended."""
        job = change.after
        if change.before.active and ended_well(job) and job.usage:
            self._keep(_key(job), job.usage)

    def of(self, job: JobRecord) -> Mapping[str, UsageOn]:
        """Return what a job uses by GPU type, else what the last job of its script did; empty: nobody knows."""
        if job.usage or not job.script_key:
            return job.usage
        return self._known.get(_key(job), {})

    def _keep(self, key: Key, usage: Mapping[str, UsageOn]) -> None:
        self._known[key] = usage
        self._known.move_to_end(key)
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)


def _key(job: JobRecord) -> Key:
    return job.owner, job.script_key, job.spec.asked_gpus
