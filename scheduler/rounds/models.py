"""The goodput models of jobs, made again only when their measurements or the cluster's GPU types changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...core.doors import Door
from ...estimators.goodput import JobModel
from ...estimators.guessed_types import with_guesses
from ...estimators.measurements import Measurements
from ..executors.executor_jobs import gpus_per_replica
from ..jobs.record import JobRecord

Failed = Callable[[str, Exception], None]  # told of a job's id and why no model fits its measurements
_Known = tuple[Measurements, tuple[str, ...], JobModel | None]  # what a model was made of, and the model


class ModelCache:
    """Keeps one model a job, by the identity of its measurements.

    A model is made when a report comes (`refresh`), so that no round has to wait for those of all jobs.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def models(
        self, jobs: Iterable[JobRecord], gpu_types: Sequence[str], failed: Failed
    ) -> dict[str, JobModel | None]:
        """Return the model of each job that was measured; None where no model fits. Others are forgotten.

        Measurements that no model fits are told to `failed` once.
        """
        types = tuple(gpu_types)
        found = {job.id: self._model(job, types, failed) for job in jobs if job.measurements is not None}
        for job_id in list(self._known):  # reports may come meanwhile, in other threads
            if job_id not in found:
                self._known.pop(job_id, None)
        return found

    def refresh(self, job: JobRecord, gpu_types: Sequence[str], failed: Failed) -> None:
        """Make the model of a job anew where its measurements changed."""
        self._model(job, tuple(gpu_types), failed)

    def _model(self, job: JobRecord, types: tuple[str, ...], failed: Failed) -> JobModel | None:
        measured, known = job.measurements, self._known.get(job.id)
        if measured is None:
            return None
        if known is not None and known[0] is measured and known[1] == types:
            return known[2]
        try:
            model = _with_new_noise(known, measured, types) or measured.job_model(
                job.spec.training, gpus_per_replica(job.spec, types), job.spec.fewest_replicas
            )
            if model is not None and job.spec.door is Door.RESTARTING:
                model = with_guesses(model, [t for t in types if job.spec.gpus_per_replica(t) is not None])
        except (ValueError, ArithmeticError, KeyError) as error:
            failed(job.id, error)
            model = None
        self._known[job.id] = measured, types, model
        return model


def _with_new_noise(known: _Known | None, measured: Measurements, types: tuple[str, ...]) -> JobModel | None:
    """Return the known model at the newest gradient noise; None where more than that has changed."""
    if known is None or known[2] is None or known[1] != types:
        return None
    noise = measured.noise_scale
    return known[2].with_noise_scale(noise) if noise is not None and measured.same_but_noise(known[0]) else None
