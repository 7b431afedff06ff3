"""A job that is not submitted, as a forecast knows it: by what earlier runs of its script have measured."""

from __future__ import annotations

from dataclasses import replace

from ...core.cluster import Cluster
from ...core.job import JobSpec
from ...estimators.curves.curve import NO_CURVE
from ...estimators.goodput import JobModel
from ...estimators.measurements import Measurements
from ...estimators.predictor import Work, asked_speeds, predict, reaching_of, work_left
from ...estimators.run_lengths import RunLengths
from ...forecasts.state import LiveJob, told_spec
from ..executors.executor_jobs import gpus_per_replica


def new_job(
    job_id: str,
    spec: JobSpec,
    owner: str,
    script_key: str,
    known: Measurements | None,
    lengths: RunLengths,
    cluster: Cluster,
    now: float,
    measuring_s: float,
) -> LiveJob:
    """Return a job as if it were submitted now.

    Args:
        known: what earlier runs of the same script have measured; None: nothing.
        lengths: of earlier runs.
        measuring_s: what jobs take until they may train, where nothing is known of them.
    """
    model = _model(known, spec, cluster)
    found = LiveJob(
        id=job_id,
        spec=told_spec(spec),
        submitted_s=now,
        owner=owner,
        script_key=script_key,
        model=model,
        ready_s=now if model is not None or not spec.is_measured_first else now + measuring_s,
        rewards=None if spec.deadline is None else spec.deadline.rewards(now),
    )
    pool = cluster.of_pool(spec.pool or "")
    speeds = asked_speeds([model], [spec.asked_gpus], pool)
    asked = None if known is None or known.info is None else known.info.asked_samples
    left = work_left(0.0, 0.0, asked)
    earlier = lengths.of(owner, script_key) if script_key else None
    target = spec.training.target
    reaching = None if target is None else reaching_of(target, NO_CURVE, 0.0, left, earlier)
    work = Work(left, 0.0, 0.0, target is not None, reaching)
    expected = predict(work, float(speeds.samples_per_s[0]), float(speeds.error[0]), earlier)
    if not expected.known:
        return replace(found, remaining=left)
    return replace(
        found,
        remaining=left,
        mean_s=expected.mean_s,
        low_s=expected.low_s,
        high_s=expected.high_s,
        source=expected.source,
    )


def _model(known: Measurements | None, spec: JobSpec, cluster: Cluster) -> JobModel | None:
    if known is None or known.unfitted():
        return None
    try:
        return known.job_model(spec.training, gpus_per_replica(spec, cluster.gpu_types), spec.fewest_replicas)
    except (ValueError, ArithmeticError, KeyError):
        return None
