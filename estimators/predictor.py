"""How long a job still needs: one prediction for live and for simulated jobs. Pure.

It is the time on the GPUs that policies of fixed sizes give a job. These are as many as it asks for, of the
fastest GPU type that has so many, on as few nodes as possible. So it does not depend on where the job happens
to be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ..core.cluster import Cluster
from ..core.completion import samples_left
from ..core.expected import BAND, UNKNOWN, Expected, ExpectedSource
from ..core.training_config import MetricTarget
from .curves.curve import Curve, MetricCurve
from .curves.forecast import Reaching, since_last
from .goodput import ConfigurationArrays, GoodputModel, JobModel, goodput_matrix
from .run_lengths import Lengths

Floats = NDArray[np.float64]
# Standard deviations of the log of a predicted step time (estimator_accuracy in `docs/results/performance.md`).
# The error is 18 % at the 95th percentile between measured placements, and 21 % at the median with links of
# another type.
MODEL_ERROR = 0.09
EXTRAPOLATION_ERROR = 0.3
Z = NormalDist().inv_cdf((1 + BAND) / 2)  # standard deviations from the middle to the ends of the band


@dataclass(frozen=True)
class Speeds:
    """(jobs,) goodput in samples/s at the initial batch size, 0: nobody knows; and the deviation of its log."""

    samples_per_s: Floats
    error: Floats


@dataclass(frozen=True)
class Work:
    """What a job has done and has left; samples at the initial batch size.

    `left_samples`: to the end of its epochs; None: nobody knows. `trained_s`: seconds it has had GPUs.
    `may_end_sooner`: a metric may end it at any moment. `reaching`: when that is to be; None: it has no target.
    """

    left_samples: float | None
    done_samples: float = 0.0
    trained_s: float = 0.0
    may_end_sooner: bool = False
    reaching: Reaching | None = None


def asked_speeds(models: Sequence[GoodputModel | None], gpus: Sequence[int], cluster: Cluster) -> Speeds:
    """Return how fast each job is on the GPUs it asks for, of the fastest GPU type that has so many.

    Args:
        gpus: that each job asks for.
    """
    speed, error = np.zeros(len(models)), np.zeros(len(models))
    capacity, asked = cluster.capacity(), np.array(gpus, np.int64)
    for count in np.unique(asked).tolist():
        types = tuple(t for t in capacity if capacity[t] >= count)
        if not types:
            continue
        sizes = np.array([cluster.largest_nodes[t] for t in types], np.int64)
        jobs = np.flatnonzero(asked == count)
        of = ConfigurationArrays(
            types, sizes, np.arange(len(types)), -(-count // sizes), np.full(len(types), count)
        )
        goodput = goodput_matrix([models[job] for job in jobs.tolist()], of)
        speed[jobs] = goodput.max(axis=1)
        best = goodput.argmax(axis=1).tolist()
        error[jobs] = [
            speed_error(models[job], types[t], count) for job, t in zip(jobs.tolist(), best, strict=True)
        ]
    return Speeds(speed, error)


def speed_error(model: GoodputModel | None, gpu_type: str, gpus: int) -> float:
    """Return the standard deviation of the log of a predicted speed; 0 for what was not fitted.

    It is the spread of the measured steps around their fit, and the error that fits make of other placements.
    """
    known = model.throughput.get(gpu_type) if isinstance(model, JobModel) else None
    if known is None or not isinstance(model, JobModel):
        return 0.0
    replicas = gpus // model.gpus_per_replica.get(gpu_type, 1)
    beyond = EXTRAPOLATION_ERROR if replicas > known.max_replicas_measured else MODEL_ERROR
    return math.hypot(known.spread, beyond)


def work_left(progress_samples: float, fraction: float, asked_samples: float | None) -> float | None:
    """Return the samples, at the initial batch size, to the end of the epochs; None: nobody knows.

    Before its first report a job has left what its script asks for, where its profile run has seen that.
    """
    left = samples_left(progress_samples, fraction)
    return asked_samples if left is None else left


def reaching_of(
    target: MetricTarget, known: MetricCurve, done: float, left: float | None, earlier: Lengths | None
) -> Reaching | None:
    """Return how much progress is left until a target is reached.

    None: nobody knows where training ends, or the lengths of earlier runs say more than the job's own curve.

    Args:
        known: the curve of the job; that of another metric does not count.
        done, left: samples at the initial batch size.
    """
    if left is None:
        return None
    own = known.curve if known.metric == target.metric else Curve()
    end = float(f"{done + left:.4g}")  # so that its last digits make no new question
    runs = () if earlier is None else earlier.curves.get(target.metric, ())
    if not runs and earlier is not None and earlier.samples is not None:
        return None
    return since_last(target, own, end, runs).after(done - (own.at[-1] if own.at else 0.0))


def predict(work: Work, samples_per_s: float, error: float, earlier: Lengths | None = None) -> Expected:
    """Return the time that the work left takes.

    It is the epochs left over the speed. If a metric may end the job sooner, its course in earlier runs of the
    same script tells how much is left, else how long they trained, else its own course. Where the epochs are
    unknown, it is how long earlier runs trained. If that is unknown too, it is the time that they took, less
    what the job has had.

    Args:
        samples_per_s: on the GPUs that the job asks for; 0 if it is unknown.
        error: standard deviation of the log of `samples_per_s`.
    """
    if samples_per_s > 0 and math.isfinite(samples_per_s):
        reaching = work.reaching
        if reaching is not None and reaching.source is ExpectedSource.EARLIER_RUNS:
            return _by_curve(reaching, samples_per_s, error)
        known = None if earlier is None or earlier.samples is None else earlier.samples.left(work.done_samples)
        if known is not None and (work.may_end_sooner or work.left_samples is None):
            most = math.inf if work.left_samples is None else work.left_samples
            mean_s, low_s, high_s = (min(part, most) / samples_per_s for part in known)
            return _banded(mean_s, low_s, high_s, error, ExpectedSource.EARLIER_RUNS)
        if reaching is not None and reaching.source is ExpectedSource.LEARNING_CURVE:
            return _by_curve(reaching, samples_per_s, error)
        if work.left_samples is not None:
            note = "" if reaching is None else reaching.why
            return _by_speed(work.left_samples / samples_per_s, error, work.may_end_sooner, note)
    known = None if earlier is None else earlier.seconds.left(work.trained_s)
    return UNKNOWN if known is None else _banded(*known, 0.0, ExpectedSource.EARLIER_RUNS)


def _by_curve(reaching: Reaching, samples_per_s: float, error: float) -> Expected:
    mean_s, low_s, high_s = (part / samples_per_s for part in (reaching.left, reaching.low, reaching.high))
    return _banded(mean_s, low_s, high_s, error, reaching.source, reaching.basis)


def _by_speed(mean_s: float, error: float, may_end_sooner: bool, note: str) -> Expected:
    high_s = mean_s * math.exp(Z * error)
    if not math.isfinite(high_s):
        return UNKNOWN
    low_s = 0.0 if may_end_sooner else mean_s * math.exp(-Z * error)
    return Expected(mean_s, low_s, high_s, ExpectedSource.MEASURED_SPEED, note=note)


def _banded(
    mean_s: float, low_s: float, high_s: float, error: float, source: ExpectedSource, basis: str = ""
) -> Expected:
    """Return a length whose band is made by doubts about the work and about the speed."""
    if mean_s > 0:
        down = math.hypot(math.log(mean_s / low_s), Z * error) if low_s > 0 else math.inf
        up = math.hypot(math.log(high_s / mean_s), Z * error)
        low_s, high_s = mean_s * math.exp(-down), mean_s * math.exp(up)
    if not math.isfinite(high_s):
        return UNKNOWN
    return Expected(mean_s, low_s, high_s, source, basis)
