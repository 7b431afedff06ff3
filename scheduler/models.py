"""The goodput models of jobs, made again only when their measurements or the cluster's GPU types changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..estimators.goodput import JobModel
from ..estimators.measurements import Measurements
from .executors import gpus_per_replica
from .record import JobRecord

_Known = tuple[Measurements, tuple[str, ...], JobModel | None]  # what a model was made of, and the model


class ModelCache:
    """Keeps one model a job, by the identity of its measurements."""

    def __init__(self) -> None:
        self._models: dict[str, _Known] = {}

    def models(
        self, jobs: Iterable[JobRecord], gpu_types: Sequence[str], failed: Callable[[str, Exception], None]
    ) -> dict[str, JobModel | None]:
        """Return the model of each job; None where nothing is known.

        Measurements that no model fits are told to `failed` once, and count as unknown. Others are forgotten.
        """
        types, kept = tuple(gpu_types), {}
        for job in jobs:
            measured = job.measurements
            if measured is None:
                continue
            cached = self._models.get(job.id)
            if cached is None or cached[0] is not measured or cached[1] != types:
                try:
                    model = _with_new_noise(cached, measured, types) or measured.job_model(
                        job.spec.training, gpus_per_replica(job.spec, types), job.spec.fewest_replicas
                    )
                except (ValueError, ArithmeticError, KeyError) as error:
                    failed(job.id, error)
                    model = None
                cached = measured, types, model
            kept[job.id] = cached
        self._models = kept
        return {job_id: model for job_id, (_, _, model) in kept.items()}


def _with_new_noise(known: _Known | None, measured: Measurements, types: tuple[str, ...]) -> JobModel | None:
    """Return the known model at the newest gradient noise; None where more than that has changed."""
    if known is None or known[2] is None or known[1] != types:
        return None
    noise = measured.noise_scale
    return known[2].with_noise_scale(noise) if noise is not None and measured.same_but_noise(known[0]) else None
