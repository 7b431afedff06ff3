"""Traces derived from Philly's shape, as Synergy draws them (OSDI'22, section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .traces.workload import TraceJob, Workload

# The models of each task; within a task all are equally likely.
TASKS: Mapping[str, tuple[str, ...]] = {
    "image": ("shufflenet", "alexnet", "res18", "mobilenet", "res50"),
    "language": ("gnmt", "lstm", "transformer"),
    "speech": ("m5", "deepspeech"),
}
# How many of Philly's jobs ask for how many GPUs; those of more than 16 are left out.
PHILLY_GPUS: Mapping[int, float] = {1: 76_600, 2: 1_800, 4: 1_900, 8: 1_600, 16: 199}
SINGLE: Mapping[int, float] = {1: 1}
# 10^x minutes with x uniform between two limits, and how likely each is.
DURATIONS = (((1.5, 3.0), 0.8), ((3.0, 4.0), 0.2))


@dataclass(frozen=True)
class Derived:
    """How jobs are drawn.

    jobs_per_hour: rate of a Poisson process; None: all arrive at once.
    split: weights of image, language and speech jobs.
    gpus: how likely each number of GPUs is, in any unit.

    Raises ValueError, one sentence with field and value, for numbers that cannot be.
    """

    jobs: int
    jobs_per_hour: float | None
    split: Sequence[float] = (20, 70, 10)
    gpus: Mapping[int, float] = field(default_factory=lambda: dict(SINGLE))

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ValueError(f"jobs: {self.jobs} must be at least 1")
        if self.jobs_per_hour is not None and not 0 < self.jobs_per_hour < np.inf:
            raise ValueError(f"jobs_per_hour: {self.jobs_per_hour} must be more than 0")
        weights = list(self.split)
        if len(weights) != len(TASKS) or not all(0 <= one < np.inf for one in weights) or not sum(weights):
            raise ValueError(f"split: {weights} is not accepted; weights of {', '.join(TASKS)} are, not all 0")
        if not self.gpus or min(self.gpus) < 1 or not all(0 < one < np.inf for one in self.gpus.values()):
            raise ValueError(f"gpus: {dict(self.gpus)} is not accepted; numbers of GPUs with weights above 0 are")

    @property
    def shown(self) -> str:
        """What is drawn, in words."""
        arrivals = "at once" if self.jobs_per_hour is None else f"at {self.jobs_per_hour:g}/h"
        sizes = "1 GPU" if set(self.gpus) == {1} else f"1 to {max(self.gpus)} GPUs"
        return f"derived {self.jobs} {arrivals}, split {','.join(f'{one:g}' for one in self.split)}, {sizes}"


def asked_by(split: str | None, sizes: str, at_once: bool, jobs: int, jobs_per_hour: float) -> Derived | None:
    """Return what options ask for; None: no derived jobs, as without a split.

    Args:
        split: as "20,70,10".
        sizes: `single` for jobs of 1 GPU, `philly`, or weights by GPUs as "1:80,4:20".

    Raises ValueError, one sentence with the option and its value.
    """
    if split is None:
        if sizes != "single" or at_once:
            raise ValueError("split: is not given; sizes and at_once are for jobs that are derived with it")
        return None
    try:
        weights = [float(part) for part in split.split(",")]
    except ValueError:
        raise ValueError(f"split: {split!r} is not accepted; weights such as 20,70,10 are") from None
    named = {"single": SINGLE, "philly": PHILLY_GPUS}.get(sizes)
    if named is None:
        try:
            parts = [part.split(":") for part in sizes.split(",")]
            named = {int(gpus): float(weight) for gpus, weight in parts}
        except ValueError:
            raise ValueError(f"sizes: {sizes!r} is not accepted; single, philly or 1:80,4:20 are") from None
    return Derived(jobs, None if at_once else jobs_per_hour, weights, named)


def derived(asked: Derived, seed: int = 0) -> Workload:
    """Draw jobs. A duration is that at the reference share, which the model's profile is relative to.

    The same seed gives the same jobs at any rate and split: the same arrivals but for the rate, the same durations
    and sizes.
    """
    random = np.random.default_rng(seed)
    count = asked.jobs
    gaps, tasks, models = random.exponential(1.0, count), random.random(count), random.random(count)
    which, exponent, sizes = random.random(count), random.random(count), random.random(count)
    arrival_s = np.zeros(count) if asked.jobs_per_hour is None else np.cumsum(gaps) * 3600 / asked.jobs_per_hour
    limits = np.array([limit for limit, _ in DURATIONS])
    likely = np.cumsum([chance for _, chance in DURATIONS])
    drawn = np.minimum(np.searchsorted(likely, which, side="right"), len(limits) - 1)
    low, high = limits[drawn, 0], limits[drawn, 1]
    duration_s = 60 * 10 ** (low + (high - low) * exponent)
    split = np.cumsum(np.array(asked.split, float) / sum(asked.split))
    task = np.minimum(np.searchsorted(split, tasks, side="right"), len(split) - 1)
    numbers = np.array(sorted(asked.gpus))
    chances = np.cumsum([asked.gpus[int(n)] for n in numbers]) / sum(asked.gpus.values())
    gpus = numbers[np.minimum(np.searchsorted(chances, sizes, side="right"), len(numbers) - 1)]
    names = list(TASKS.values())
    return Workload.of(
        TraceJob(
            id=f"job-{at}",
            submit_s=float(arrival_s[at]),
            gpus=int(gpus[at]),
            duration_s=float(duration_s[at]),
            application=names[task[at]][int(models[at] * len(names[task[at]]))],
        )
        for at in range(count)
    )
