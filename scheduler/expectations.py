"""What is expected of the jobs of a round, by the same predictor as in the simulator. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.cluster import Cluster
from ..core.expected import UNKNOWN, Expected
from ..estimators.goodput import JobModel
from ..estimators.predictor import asked_speeds, predict, work_left
from .record import JobRecord


def expectations(
    jobs: Sequence[JobRecord], models: Mapping[str, JobModel | None], cluster: Cluster
) -> dict[str, Expected]:
    """Return what each job still needs on the GPUs it asks for, of the type of its pool that is fastest for it."""
    found = dict.fromkeys((job.id for job in jobs), UNKNOWN)
    pools: dict[str, list[JobRecord]] = {}
    for job in jobs:
        pools.setdefault(job.spec.pool or "", []).append(job)
    for pool, mine in pools.items():
        asked = [job.spec.resources.gpus or job.spec.resources.min_gpus for job in mine]
        speeds = asked_speeds([models.get(job.id) for job in mine], asked, cluster.of_pool(pool).largest_nodes)
        columns = zip(mine, speeds.samples_per_s.tolist(), speeds.error.tolist(), strict=True)
        for job, samples_per_s, error in columns:
            ends_by_metric = job.spec.training.target is not None
            found[job.id] = predict(samples_left_of(job), samples_per_s, error, may_end_sooner=ends_by_metric)
    return found


def samples_left_of(job: JobRecord) -> float | None:
    """Return the samples that a job still has to train, at its initial batch size; None: nobody knows."""
    info = job.measurements.info if job.measurements is not None else None
    done, fraction = float(job.report.get("progress_samples", 0.0)), float(job.report.get("fraction", 0.0))
    return work_left(done, fraction, None if info is None else info.asked_samples)
