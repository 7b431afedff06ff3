"""Keeps the jobs of the last weeks as forecasts know them: when they came, and what they took."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence

from ...core.cluster import Cluster
from ...core.doors import Door
from ...estimators.goodput import JobModel
from ...estimators.guessed_types import with_guesses
from ...forecasts.state import PastJob, told_spec
from ..executors.executor_jobs import gpus_per_replica
from ..jobs.record import JobRecord
from ..store.store import Store

WEEKS_S = 14 * 86_400.0
MOST = 1000  # the newest


class PastJobs:
    """Reads ended jobs of the store once, and is told of each that ends from then on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._ended: deque[str] = deque(maxlen=MOST)  # nobody may ask for news
        self._read = False

    def ended(self, job_id: str) -> None:
        """Take note of a job that has ended."""
        with self._lock:
            self._ended.append(job_id)

    def news(self, cluster: Cluster, now: float) -> list[PastJob]:
        """Return the jobs that have ended since the last call, at first all of the last weeks."""
        with self._lock:
            ids = list(self._ended)
            self._ended.clear()
        if not self._read:
            self._read = True
            ids = list(dict.fromkeys([*(job.id for job in self._store.ended_jobs(MOST)), *ids]))
        records = [job for id in ids if (job := self._store.find(id)) is not None]
        return [
            past_job(job, self._store, cluster.gpu_types)
            for job in records
            if job.state.finished_s is not None and now - job.state.submitted_s < WEEKS_S
        ]

    def begin_again(self) -> None:
        """Return all at the next call of `news`, as whoever had them is gone."""
        self._read = False


def newest(known: Mapping[str, PastJob]) -> dict[str, PastJob]:
    """Return the newest of some jobs by id, as many as are kept; a service that runs for months has seen more."""
    kept = sorted(known.values(), key=lambda one: one.submitted_s)[-MOST:]
    return {one.id: one for one in kept}


def past_job(job: JobRecord, store: Store, gpu_types: Sequence[str]) -> PastJob:
    """Return an ended job as forecasts know it."""
    finished_s = job.state.finished_s or job.state.submitted_s
    return PastJob(
        id=job.id,
        spec=told_spec(job.spec),
        owner=job.owner,
        script_key=job.script_key,
        submitted_s=job.state.submitted_s,
        served_s=store.held_time(job.id).served_s(0.0, finished_s),
        samples=float(job.report.get("progress_samples", 0.0)) or None,
        model=_model(job, gpu_types),
        start_s=job.start_s,
        move_s=job.pause_s,
    )


def _model(job: JobRecord, gpu_types: Sequence[str]) -> JobModel | None:
    """Return the model of what was measured; None: nothing was, or it is not fitted, which would take long."""
    measured = job.measurements
    if measured is None or measured.unfitted():
        return None
    try:
        model = measured.job_model(
            job.spec.training, gpus_per_replica(job.spec, gpu_types), job.spec.fewest_replicas
        )
        if model is not None and job.spec.door is Door.RESTARTING:
            model = with_guesses(model, [t for t in gpu_types if job.spec.gpus_per_replica(t) is not None])
    except (ValueError, ArithmeticError, KeyError):
        return None
    return model
