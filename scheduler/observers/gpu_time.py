"""Sums by day of GPU time in which jobs did not train on what they held, or did not use it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime

from ..jobs.record import JobRecord
from ..runtime.clock import Clock
from ..store import used
from ..store.store import Store
from .hooks import Change, CycleHook

STARTED, IDLE, LOST = "started", "idle", "lost"
Waste = dict[tuple[str, str], float]  # (kind, GPU type) -> GPUs by their shares


class GpuTimeHook(CycleHook):
    """Adds the time up between changes of a job. What it is within a day is not kept.

    Args:
        jobs: those that are active at the start; their time counts from then on.
    """

    def __init__(self, store: Store, clock: Clock, jobs: Iterable[JobRecord]) -> None:
        self._store, self._clock = store, clock
        now = clock.steady_s()
        self._since = {job.id: (now, found) for job in jobs if (found := without_training(job))}

    def changed(self, change: Change) -> None:
        """Count what a job wasted since its last change, and take note of what it does from now on."""
        before, after, now = change.before, change.after, change.now
        sums: defaultdict[tuple[str, str], float] = defaultdict(float)
        since_s, wasted = self._since.pop(after.id, (now, {}))
        for key, gpus in wasted.items():
            sums[key] += gpus * max(now - since_s, 0.0)
        if found := without_training(after):
            self._since[after.id] = now, found
        if after.usage is not before.usage:
            for gpu_type, use in after.usage.items():
                known = before.usage.get(gpu_type)
                idle_s = use.mean.idle_s - (0.0 if known is None else known.mean.idle_s)
                sums[IDLE, gpu_type] += max(idle_s, 0.0)
        rows = [(kind, gpu_type, gpu_s) for (kind, gpu_type), gpu_s in sums.items() if gpu_s > 0]
        if rows:
            day = datetime.fromtimestamp(self._clock.wall_s(), UTC).strftime("%Y-%m-%d")
            self._store.write(used.add(after.id, day, rows))

    def retired(self, job: JobRecord) -> None:
        """Forget a job that holds nothing any more."""
        self._since.pop(job.id, None)


def without_training(job: JobRecord) -> Waste:
    """Return the GPUs that a job holds and does not train on, by kind and type.

    They start while the rest of the job trains, or before it ever has. They are lost while all of a job stands
    still that has trained before: as it restarts, moves without a part that goes on, or leaves.
    """
    training = set(job.group)
    kind = STARTED if job.group or job.state.started_s is None else LOST
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    for slot in job.held:
        if slot not in training:
            found[kind, slot.gpu_type] += slot.weight
    return found
