"""Made-up jobs of teams in bursts ("Anticipatory Resource Allocation for ML Training", appendices A and C).

Times of the paper are minutes; here they are seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .traces.workload import TraceJob, Workload

MIN_S = 60.0
WIDTHS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Bursts:
    """How jobs are drawn.

    queues, gpus: teams, and what each is guaranteed.
    load: a factor on the drawn load of a queue, which is uniform from 0.6 to 0.95.
    durations: (least, most, weight) of uniform parts, min.
    widths: weights of 1, 2, 4 and 8 GPUs.
    days: from the first burst to the last.

    Raises ValueError, in one sentence, for numbers that cannot be.
    """

    queues: int = 4
    gpus: int = 8
    load: float = 1.0
    durations: Sequence[tuple[float, float, float]] = ((math.sqrt(10), 100.0, 0.8), (100.0, 1000.0, 0.2))
    widths: Sequence[float] = (0.7, 0.1, 0.15, 0.05)
    days: float = 3.0
    loads: tuple[float, float] = field(default=(0.6, 0.95))

    def __post_init__(self) -> None:
        if self.queues < 1:
            raise ValueError(f"queues: {self.queues} must be at least 1")
        if self.gpus < max(WIDTHS):
            raise ValueError(f"gpus: {self.gpus} must be at least {max(WIDTHS)}, the widest job")
        if not (0 < self.load < math.inf and 0 < self.days < math.inf):
            raise ValueError(f"load, days: {self.load} and {self.days} must be more than 0, and finite")
        if len(self.widths) != len(WIDTHS) or min(self.widths) < 0 or not sum(self.widths):
            raise ValueError(f"widths: {list(self.widths)}; weights of 1, 2, 4 and 8 GPUs are accepted")
        if any(not 0 < least < most < math.inf or weight < 0 for least, most, weight in self.durations):
            raise ValueError(f"durations: {list(self.durations)}; (least, most, weight) that rise are accepted")

    @property
    def mean_min(self) -> float:
        """Minutes that a job takes in the mean."""
        total = sum(weight for _, _, weight in self.durations)
        return sum(weight * (least + most) / 2 for least, most, weight in self.durations) / total

    def with_length(self, days: float) -> Bursts:
        return replace(self, days=days)


BASE = Bursts()
SHORT, LONG = BASE.durations[0][:2], BASE.durations[1][:2]
VARIANTS = {
    "base": BASE,
    "higher_load": replace(BASE, load=1.05),
    "lower_load": replace(BASE, load=0.75),
    "more_queues": replace(BASE, queues=8),
    "fewer_queues": replace(BASE, queues=2),
    "more_skewed": replace(BASE, durations=((*SHORT, 0.9), (100.0, 2000.0, 0.1))),
    "less_skewed": replace(BASE, durations=((SHORT[0], 300.0, 1.0),)),
    "more_wide": replace(BASE, widths=(1, 1, 1, 1)),
    "fewer_wide": replace(BASE, widths=(0.9, 0.033, 0.05, 0.017)),
}


def bursts(how: Bursts, seed: int) -> Workload:
    """Draw the jobs of all teams, none of which may be stopped.

    A burst's width is uniform from 1 to all GPUs of its team. The last job of a burst may exceed it, so that
    widths keep their weights. Gaps between bursts are exponential, with the mean that gives a team its load.
    """
    random = np.random.default_rng([seed, 233])
    weights = np.array(how.widths, float) / sum(how.widths)
    parts = np.array([weight for _, _, weight in how.durations]) / sum(weight for _, _, weight in how.durations)
    mean_width = _mean_burst(how, weights)
    jobs: list[TraceJob] = []
    for queue in range(how.queues):
        load = how.load * random.uniform(*how.loads)
        gap_min = mean_width * how.mean_min / (load * how.gpus)
        at_min, end_min = random.exponential(gap_min), 1440 * how.days
        while at_min < end_min:
            wanted = int(random.integers(1, how.gpus + 1))
            while wanted > 0:
                gpus = int(random.choice(WIDTHS, p=weights))
                least, most, _ = how.durations[int(random.choice(len(parts), p=parts))]
                takes_s = MIN_S * random.uniform(least, most)
                jobs.append(
                    TraceJob("", MIN_S * at_min, gpus, takes_s, virtual_cluster=f"team-{queue}", preemptible=False)
                )
                wanted -= gpus
            at_min += random.exponential(gap_min)
    jobs.sort(key=lambda job: (job.submit_s, job.virtual_cluster))
    return Workload.of([replace(job, id=f"job-{at:05d}") for at, job in enumerate(jobs)])


def _mean_burst(how: Bursts, weights: np.ndarray) -> float:
    """Return the mean width of a burst whose last job may exceed what was drawn."""
    mean = np.zeros(how.gpus + 1)  # of what is still wanted -> the mean of what is drawn
    for wanted in range(1, how.gpus + 1):
        mean[wanted] = sum(
            weight * (width + mean[max(wanted - width, 0)]) for width, weight in zip(WIDTHS, weights, strict=True)
        )
    return float(mean[1:].mean())


def teams_file(how: Bursts, gpu_type: str) -> str:
    """Return the text of a file of the teams, each with its guarantee."""
    rows = "".join(f"  team-{at}: {{guarantee: {{{gpu_type}: {how.gpus}}}}}\n" for at in range(how.queues))
    return f"teams:\n{rows}"
