"""Synthetic traces from fitted models, for trying policies where no trace is at hand."""

from __future__ import annotations

from functools import cache

import numpy as np

from ..core.training_config import Adaptivity
from ..estimators.goodput import BatchLimits, JobModel, best_batch
from ..estimators.throughput import ThroughputModel
from .jobs.fitted import FittedApplications
from .jobs.fitted_step_times import FittedStepTimes
from .traces.workload import TraceJob, Workload

# Shares of the models among the jobs of Sia's newTrace.
MIX = {"cifar10": 0.53, "deepspeech2": 0.22, "bert": 0.206, "yolov3": 0.036, "imagenet": 0.008}
_REFERENCE = "t4"  # the GPU type whose scaling decides what a job asks for
_MOST_GPUS = 16
_LEAST_EFFICIENCY = 0.5  # goodput per GPU, relative to one GPU


def synthetic(
    jobs: int, jobs_per_hour: float, seed: int = 0, adaptivity: Adaptivity = Adaptivity.ADAPTIVE
) -> Workload:
    """Draw jobs that arrive at random (Poisson) at a rate, with models drawn by `MIX`.

    A job also asks for a fixed size and batch size ("TunedJobs"), for policies that cannot choose. Its GPUs are
    drawn from the numbers that it uses at least half as well as one GPU. Its batch size is the best on them.

    Raise ValueError if `jobs` or `jobs_per_hour` is not positive.
    """
    if jobs < 1:
        raise ValueError(f"jobs: {jobs} must be at least 1")
    if not jobs_per_hour > 0:
        raise ValueError(f"jobs_per_hour: {jobs_per_hour} must be more than 0")
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(3600 / jobs_per_hour, jobs))
    names = random.choice(list(MIX), jobs, p=np.array(list(MIX.values())) / sum(MIX.values()))
    made = []
    for i, (arrival, name) in enumerate(zip(arrivals.tolist(), names.tolist(), strict=True)):
        choices = _tuned(name)
        gpus, batch_size = choices[int(random.integers(len(choices)))]
        made.append(TraceJob(f"{name}-{i}", arrival, gpus, None, name, batch_size, adaptivity))
    return Workload.of(made)


@cache
def _tuned(name: str) -> tuple[tuple[int, int], ...]:
    """Return each (GPUs, batch size) that a careful user might ask for."""
    application = FittedApplications([_REFERENCE])[name]
    times = application.step_times[_REFERENCE]
    assert isinstance(times, FittedStepTimes)
    model = JobModel(
        {_REFERENCE: ThroughputModel(times.params, times.high, _MOST_GPUS)},
        application.statistics.noise_scale(application.initial_batch_size, application.epochs // 2),
        BatchLimits(application.initial_batch_size, application.max_batch_size, times.low),
        {_REFERENCE: 1},
    )
    found: list[tuple[int, int]] = []
    alone = 0.0
    gpus = 1
    while gpus <= _MOST_GPUS:
        best = best_batch(model, _REFERENCE, -(-gpus // 4), gpus)
        if best is not None:
            alone = alone or best.goodput / gpus
            if best.goodput >= _LEAST_EFFICIENCY * gpus * alone:
                found.append((gpus, best.batch_size))
        gpus *= 2
    return tuple(found)
