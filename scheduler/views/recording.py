"""Writes what has run as a trace that `coadapt simulate` replays: one JSON object per job. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...core.job import Phase
from ...core.json_numbers import all_finite, dumps
from ...estimators.bootstrap import with_bootstrap
from ...estimators.goodput import JobModel, best_batch
from ...estimators.measurements import EVERY_TYPE
from ..jobs.record import JobRecord
from ..store.intervals import UsageInterval


def trace_lines(jobs: Iterable[JobRecord], intervals: Iterable[UsageInterval], restart_cost_s: float) -> list[str]:
    """Return a line for each job that succeeded and whose speed is known, in order of submission.

    A line says what the job asked for and what was measured of it. Measured are its profile runs, throughput
    parameters per GPU type, noise scale, samples to the end (at the initial batch size), start times and restarts.

    Args:
        intervals: who held which GPUs, and when.
        restart_cost_s: the cost of a restart that policies assumed where no start had been measured.
    """
    held: dict[str, list[UsageInterval]] = {}
    for interval in intervals:
        if interval.end_s is not None and interval.end_s > interval.start_s:
            held.setdefault(interval.job_id, []).append(interval)
    ended = sorted(
        (job for job in jobs if job.phase is Phase.SUCCEEDED), key=lambda job: (job.state.submitted_s, job.number)
    )
    rows = [
        row
        for job in ended
        if (row := _row(job, held.get(job.id, []), ended[0].state.submitted_s, restart_cost_s)) is not None
    ]
    # A job whose training diverged has no finite speed to replay.
    return [dumps(row) for row in rows if all_finite(row)]


def _profiles(job: JobRecord, held: Iterable[UsageInterval]) -> list[dict[str, Any]]:
    return [
        {
            "gpu_type": run.gpu_type,
            "gpus": run.gpus,
            "after_s": round(run.start_s - job.state.submitted_s, 3),
            "for_s": round(_seconds(run), 3),
        }
        for run in held
        if run.phase == "profiling"
    ]


def _slowdown(job: JobRecord, model: JobModel, held: Iterable[UsageInterval], samples: float) -> float:
    """Return the samples its model expected on the GPUs it had, over those it trained; 1 if nobody can tell."""
    expected = 0.0
    for interval in held:
        per_replica = model.gpus_per_replica.get(interval.gpu_type)
        if interval.phase != "running" or per_replica is None:
            continue
        best = best_batch(model, interval.gpu_type, interval.nodes, interval.gpus // per_replica)
        expected += best.goodput * _seconds(interval) if best is not None else 0.0
    return expected / samples or 1.0


def _seconds(interval: UsageInterval) -> float:
    return 0.0 if interval.end_s is None else interval.end_s - interval.start_s


def _row(
    job: JobRecord, held: Sequence[UsageInterval], origin_s: float, restart_cost_s: float
) -> dict[str, Any] | None:
    samples = float(job.report.get("progress_samples", 0.0))
    if job.measurements is None or samples <= 0:
        return None
    resources, training = job.spec.resources, job.spec.training
    model = job.measurements.job_model(training, {EVERY_TYPE: 1})
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
        **({"virtual_cluster": job.spec.pool} if job.spec.pool else {}),
        "profiles": _profiles(job, held),
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
            "slowdown": _slowdown(job, model, held, samples),
            "start_s": job.start_s,
            "pause_s": job.pause_s or 0.0,
            "restart_s": job.restart_cost_s or job.start_s or 0.0,
            "assumed_restart_s": restart_cost_s if job.start_s is None else job.start_s,
        },
    }
