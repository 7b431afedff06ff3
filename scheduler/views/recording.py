"""Writes what has run as a trace that `coadapt simulate` replays: one JSON object per job. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ...core.job import Phase
from ...core.json_numbers import all_finite, dumps
from ...core.training_config import Adaptivity
from ...estimators.affinity.uses import FEATURES
from ...estimators.bootstrap import with_bootstrap
from ...estimators.goodput import JobModel, best_batch
from ...estimators.measurements import EVERY_TYPE
from ...estimators.throughput import ThroughputParams
from ..jobs.due import rewards_of
from ..jobs.record import JobRecord
from ..store.intervals import UsageInterval
from .alone_times import AloneTimes, seconds, use_of

STEP_S, TINY_S = 1.0, 1e-9  # of a job whose steps nobody counted: of one, and by how much a sample prolongs it


def trace_lines(jobs: Iterable[JobRecord], intervals: Iterable[UsageInterval], restart_cost_s: float) -> list[str]:
    """Return a line for each job that succeeded and whose speed or time is known, in order of submission.

    A line says what the job asked for and what was measured of it. Measured are its profile runs, throughput
    parameters per GPU type, noise scale, samples to the end (at the initial batch size), start times and restarts.
    `duration_s` is its time with the GPUs that it asks for, alone, and `uses` what it used of them. A job whose
    steps nobody counts has one speed, which gives that time.

    Args:
        intervals: who held which GPUs, and when.
        restart_cost_s: the cost of a restart that policies assumed where no start had been measured.
    """
    held: dict[str, list[UsageInterval]] = {}
    for interval in intervals:
        if interval.end_s is not None and interval.end_s > interval.start_s:
            held.setdefault(interval.job_id, []).append(interval)
    by_id = {job.id: job for job in jobs}
    ended = sorted(
        (job for job in by_id.values() if job.phase is Phase.SUCCEEDED),
        key=lambda job: (job.state.submitted_s, job.number),
    )
    alone = AloneTimes(held, by_id)
    rows = [
        row for job in ended if (row := _row(job, alone, ended[0].state.submitted_s, restart_cost_s)) is not None
    ]
    # A job whose training diverged has no finite speed to replay.
    return [dumps(row) for row in rows if all_finite(row)]


def _profiles(job: JobRecord, held: Iterable[UsageInterval]) -> list[dict[str, Any]]:
    return [
        {
            "gpu_type": run.gpu_type,
            "gpus": run.gpus,
            "after_s": round(run.start_s - job.state.submitted_s, 3),
            "for_s": round(seconds(run), 3),
        }
        for run in held
        if run.phase == "profiling"
    ]


def _slowdown(job: JobRecord, model: JobModel, alone: AloneTimes, samples: float) -> float:
    """Return the samples its model expected on the GPUs it had, over those it trained; 1 if nobody can tell."""
    expected = 0.0
    for interval in alone.held.get(job.id, ()):
        per_replica = model.gpus_per_replica.get(interval.gpu_type)
        if interval.phase != "running" or per_replica is None:
            continue
        best = best_batch(model, interval.gpu_type, interval.nodes, interval.gpus // per_replica)
        expected += best.goodput * alone.seconds(interval) if best is not None else 0.0
    return expected / samples or 1.0


def _row(job: JobRecord, alone: AloneTimes, origin_s: float, restart_cost_s: float) -> dict[str, Any] | None:
    resources, held = job.spec.resources, alone.held.get(job.id, ())
    gpus = job.spec.asked_gpus
    gpu_s = alone.gpu_s(job.id)
    restarts_s = (job.starts - 1) * (job.start_s or 0.0) if job.starts > 1 else 0.0
    duration_s = max(gpu_s / gpus - restarts_s, 0.1 * gpu_s / gpus)
    model = _measured_model(job, alone, restart_cost_s) or _model_of_one_speed(
        job, held, duration_s, restart_cost_s
    )
    if model is None:
        return None
    return {
        "id": job.id,
        "name": job.spec.name,
        "user": job.owner,
        "submit_s": round(job.state.submitted_s - origin_s, 3),
        "ready_after_s": round(max((job.state.queued_s or job.state.submitted_s) - job.state.submitted_s, 0.0), 3),
        "gpus": gpus,
        "max_gpus": resources.gpus or resources.max_gpus,
        "batch_size": model["initial_batch_size"],
        "adaptivity": job.spec.training.adaptivity.value if _is_measured(job) else Adaptivity.RIGID.value,
        "preemptible": job.spec.preemptible,
        **({"virtual_cluster": job.spec.pool} if job.spec.pool else {}),
        "profiles": _profiles(job, held),
        **({"duration_s": round(duration_s, 3)} if duration_s > 0 else {}),
        **({} if job.start_s is None else {"restart_s": round(job.start_s, 3)}),
        **({"uses": uses} if (uses := _uses(job, held)) else {}),
        **({} if (due := rewards_of(job, job.state.submitted_s)) is None else {"rewards": asdict(due)}),
        "model": model,
    }


def _is_measured(job: JobRecord) -> bool:
    return job.measurements is not None and float(job.report.get("progress_samples", 0.0)) > 0


def _measured_model(job: JobRecord, alone: AloneTimes, restart_cost_s: float) -> dict[str, Any] | None:
    """Return what was measured of how fast a job is; None: nothing was."""
    if job.measurements is None or not _is_measured(job):
        return None
    model = job.measurements.job_model(job.spec.training, {EVERY_TYPE: 1})
    if model is None or not model.throughput:
        return None
    samples = float(job.report["progress_samples"])
    return {
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
        "slowdown": _slowdown(job, model, alone, samples),
        **_starts(job, restart_cost_s),
    }


def _model_of_one_speed(
    job: JobRecord, held: Iterable[UsageInterval], duration_s: float, restart_cost_s: float
) -> dict[str, Any] | None:
    """Return a model by which a job takes so long on the GPU types that it had; None: it had none.

    Each step of a second trains one sample on each GPU. Its first start is a part of `duration_s`.
    """
    types = sorted({run.gpu_type for run in held if run.phase == "running"})
    if duration_s <= 0 or not types:
        return None
    gpus, steps = job.spec.asked_gpus, max(duration_s - (job.start_s or 0.0), STEP_S) / STEP_S
    params = ThroughputParams(alpha_c=STEP_S, beta_c=TINY_S).to_json()
    return {
        "throughput": {t: {"params": params, "max_local_bsz": 1} for t in types},
        "initial_batch_size": gpus,
        "max_batch_size": gpus,
        "samples": steps * gpus,
        **_starts(job, restart_cost_s),
    }


def _starts(job: JobRecord, restart_cost_s: float) -> dict[str, float | None]:
    """Return what starts and moves of a job took, as fields of a model."""
    return {
        "start_s": job.start_s,
        "pause_s": job.pause_s or 0.0,
        "restart_s": job.restart_cost_s or job.start_s or 0.0,
        "assumed_restart_s": restart_cost_s if job.start_s is None else job.start_s,
    }


def _uses(job: JobRecord, held: Iterable[UsageInterval]) -> dict[str, float]:
    """Return the means of what a job used of the GPUs that it had for longest; what is unknown is left out."""
    times: dict[str, float] = {}
    for run in held:
        if run.gpu_type in job.usage:
            times[run.gpu_type] = times.get(run.gpu_type, 0.0) + run.gpus * seconds(run)
    if not times:
        return {}
    row = use_of(job, max(sorted(times), key=times.__getitem__))
    named = zip((feature.name for feature in FEATURES), row.tolist(), strict=True)
    return {name: round(value, 4) for name, value in named if not math.isnan(value)}
