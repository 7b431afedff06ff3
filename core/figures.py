"""What the scheduler tells those who watch it for months: sums and counts, and nothing of a single job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

# Upper bounds of the buckets of histograms; a last one has no bound.
ROUND_S = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)
QUEUE_S = (10.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 24 * 3600.0, 72 * 3600.0)
MOST_GPU_TYPES = 30  # that are told apart; those beyond are told together
OTHER = "other"
GPU_STATES = ("free", "held", "asleep", "draining")


def of_types(by_type: Mapping[str, float]) -> dict[str, float]:
    """Return sums by GPU type, with those of types beyond the most that are told apart as one."""
    found: dict[str, float] = {}
    for at, (gpu_type, amount) in enumerate(sorted(by_type.items())):
        told = gpu_type if at < MOST_GPU_TYPES else OTHER
        found[told] = found.get(told, 0) + amount
    return found


class Histogram(TypedDict):
    """How often a duration fell into each bucket, the one without a bound last, and the sum of all."""

    counts: list[int]
    sum_s: float


class Tallied(TypedDict):
    """What has come together since the process of the service began."""

    round_s: Histogram
    rounds_failed: int
    queue_s: Histogram  # from a submit until the job first trained
    submitted: int
    ended: dict[str, int]  # by phase
    restarts: int
    resizes: int
    recoveries: int
    evictions: int
    failures: int
    executors_lost: int
    held_gpu_s: dict[str, float]  # by GPU type: seconds x GPUs that jobs had
    training_gpu_s: dict[str, float]  # of these, those in which a group trained
    samples: float  # that jobs trained on; what a job does again after a loss is left out
    progress_samples: float  # what these were worth, as samples at the jobs' initial batch sizes


class DeliveryFigures(TypedDict):
    """Events on their way to webhooks. The first three are since the process of the service began."""

    sent: int  # acknowledged
    failed: int  # tries in vain
    given_up: int
    pending: int
    oldest_s: float  # for which the oldest has waited; 0: none waits


class Figures(TypedDict):
    """What `SchedulerService.figures` answers."""

    version: str
    ray: str
    policy: str
    started_s: float  # of the process, since 1970
    cpu_s: float
    resident_bytes: int
    open_files: int
    ready: bool  # the nodes are known and the solver is compiled
    tick_age_s: float
    tick_failing: bool
    round_age_s: float | None  # None: there was none yet
    round_interval_s: float
    degraded: bool
    degraded_since_s: float | None  # None: all is well
    store_write_s: float  # of the last write
    store_bytes: int | None  # None: its database does not tell
    disk_free_bytes: int  # of the state folder
    disk_bytes: int
    backup_age_s: float | None  # None: there are no regular ones
    backup_interval_s: float  # 0: there are no regular ones
    backup_failing: bool
    last_event: int
    jobs: dict[str, int]  # by `Status`, of those that have not ended
    quarantined: int
    oldest_wait_s: float  # of a job that has never trained; 0: none waits
    gpus: dict[str, dict[str, int]]  # by GPU type: free, held, asleep, draining
    nodes: dict[str, dict[str, int]]  # that can be bought, by node type: here, asked, leaving
    nodes_cost_per_h: float | None  # dollars, also of those that were asked for; None: none can be bought
    nodes_budget_per_h: float | None
    nodes_spent: float | None  # dollars so far
    nodes_asked: int | None  # so far
    nodes_unmet: int | None  # of these, those that did not come in time
    since: Tallied
    deliveries: DeliveryFigures
