"""What has run, as a trace that `coadapt simulate` replays: one JSON object a job. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ..estimators.bootstrap import with_bootstrap
from ..executor.measurements import EVERY_TYPE, Measurements
from .job import Phase
from .record import JobRecord


def trace_lines(jobs: Iterable[JobRecord]) -> list[str]:
    """The jobs that succeeded and whose speed is known, in order of submission.

    A job is written with what it asked for and with what was measured of it: throughput parameters per GPU
    type, its noise scale, the samples (at the initial batch size) it took to end, and what a restart cost it.
    """
    ended = sorted(
        (job for job in jobs if job.phase is Phase.SUCCEEDED), key=lambda job: (job.state.submitted_s, job.number)
    )
    rows = [row for job in ended if (row := _row(job, ended[0].state.submitted_s)) is not None]
    return [json.dumps(row, separators=(",", ":")) for row in rows]


def _row(job: JobRecord, origin_s: float) -> dict[str, Any] | None:
    samples = float(job.report.get("progress_samples", 0.0))
    if not job.measurements_json or samples <= 0:
        return None
    resources, training = job.spec.resources, job.spec.training
    measurements = Measurements.from_json(job.measurements_json)
    model = measurements.job_model(training, {EVERY_TYPE: 1})
    if model is None or not model.throughput:
        return None
    return {
        "id": job.id,
        "submit_s": round(job.state.submitted_s - origin_s, 3),
        "ready_after_s": round(max((job.state.queued_s or job.state.submitted_s) - job.state.submitted_s, 0.0), 3),
        "gpus": resources.gpus or resources.min_gpus,
        "max_gpus": resources.gpus or resources.max_gpus,
        "batch_size": model.limits.initial_batch_size,
        "adaptivity": training.adaptivity.value,
        "preemptible": job.spec.preemptible,
        "model": {
            "throughput": {
                t: {
                    "params": known.params.to_json(),
                    "max_local_bsz": known.max_local_bsz,
                    "gpus_per_replica": per_replica,
                }
                for t, known in sorted(with_bootstrap(model.throughput).items())
                if (per_replica := job.spec.gpus_per_replica(t)) is not None
            },
            "noise_scale": model.noise_scale,
            "initial_batch_size": model.limits.initial_batch_size,
            "max_batch_size": model.limits.max_batch_size,
            "min_local_bsz": model.limits.min_local_bsz,
            "samples": samples,
            "restart_s": job.restart_cost_s or 0.0,
        },
    }
