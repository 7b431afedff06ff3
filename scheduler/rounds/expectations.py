"""What is expected of the jobs of a round, by the same predictor as in the simulator. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...core.cluster import Cluster
from ...core.expected import UNKNOWN, Expected
from ...estimators.goodput import JobModel
from ...estimators.predictor import Work, asked_speeds, predict, reaching_of, work_left
from ...estimators.run_lengths import Lengths, RunLengths
from ...estimators.sensitivity.limit import limited_goodput
from ...estimators.sensitivity.of_input import sensitivity_by
from ..jobs.record import JobRecord

NO_LENGTHS = RunLengths()


def expectations(
    jobs: Sequence[JobRecord],
    models: Mapping[str, JobModel | None],
    cluster: Cluster,
    lengths: RunLengths,
    trained_s: Callable[[str], float],
    *,
    to_the_end: bool = False,
) -> dict[str, Expected]:
    """Return what each job still needs on the GPUs it asks for, of the type of its pool that is fastest for it.

    Args:
        lengths: of earlier runs. Those of other users do not count.
        trained_s: seconds a job has had GPUs, by its id.
        to_the_end: as if no metric reached its target.
    """
    found = dict.fromkeys((job.id for job in jobs), UNKNOWN)
    pools: dict[str, list[JobRecord]] = {}
    for job in jobs:
        pools.setdefault(job.spec.pool or "", []).append(job)
    for pool, mine in pools.items():
        asked = [job.spec.asked_gpus for job in mine]
        speeds = asked_speeds([models.get(job.id) for job in mine], asked, cluster.of_pool(pool))
        columns = zip(mine, speeds.samples_per_s.tolist(), speeds.error.tolist(), strict=True)
        for job, samples_per_s, error in columns:
            earlier = lengths.of(job.owner, job.script_key) if job.script_key else None
            had_s = 0.0 if earlier is None else trained_s(job.id)
            of_input = _with_input(job, models.get(job.id), cluster.of_pool(pool))
            speed = samples_per_s if of_input is None else min(samples_per_s, of_input)
            work = work_of(job, had_s, earlier)
            if to_the_end:
                work = replace(work, may_end_sooner=False, reaching=None)
            known = predict(work, speed, error, earlier)
            if not known.known and job.foretold is not None:
                known = job.foretold.left(trained_s(job.id))
            found[job.id] = known
    return found


def _with_input(job: JobRecord, model: JobModel | None, cluster: Cluster) -> float | None:
    """Return the speed of a job whose input was measured, at its share of the nodes; None: it was not."""
    sensitivity = sensitivity_by(job.measurements)
    if sensitivity is None or model is None:
        return None
    return limited_goodput(model, sensitivity, cluster, job.spec.asked_gpus) or None


def work_of(job: JobRecord, trained_s: float, earlier: Lengths | None = None) -> Work:
    """Return what a job has done and has left, by its last report, its profile run and its learning curve."""
    info = job.measurements.info if job.measurements is not None else None
    done, fraction = float(job.report.get("progress_samples", 0.0)), float(job.report.get("fraction", 0.0))
    left = work_left(done, fraction, None if info is None else info.asked_samples)
    target = job.spec.training.target
    reaching = None if target is None else reaching_of(target, job.curve, done, left, earlier)
    return Work(left, done, trained_s, target is not None, reaching)
