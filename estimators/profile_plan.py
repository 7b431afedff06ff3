"""Which local batch sizes a job is measured at before its first run, and for how long.

One replica on one GPU (Sia, section 3.3.2): about ten sizes, growing geometrically from the smallest, at most
some twenty GPU-seconds in all. Where memory runs out, the largest size that fits is narrowed down between the
last that did and the first that did not. The plan is a function of what was measured. A process
that replaces one that ran out of memory, or was killed for it, therefore goes on where that one ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..core.reports import ProfileProgress, StepRow
from ..core.training_config import TrainingConfig
from .pace import Pace

WARMUP_STEPS = 2
MIN_TIMED_STEPS = 3
MAX_TIMED_STEPS = 20
BISECTIONS = 2


@dataclass(frozen=True)
class ProfileStep:
    """What to measure next: `warmup` untimed steps, then `timed` ones, of `local_bsz` samples each."""

    local_bsz: int
    warmup: int
    timed: int


class ProfilePlan:
    """Local batch sizes to measure, from `min_local_bsz` to at most `max_local_bsz`.

    `max_local_bsz` None: no limit is known, sizes double until memory runs out. `measured` and `failed` are rows
    and out-of-memory sizes of earlier processes. Times are the GPU's own.
    """

    def __init__(
        self,
        min_local_bsz: int,
        max_local_bsz: int | None = None,
        measured: Iterable[StepRow] = (),
        failed: Iterable[int] = (),
        sizes: int = 10,
        budget_s: float = 20.0,
    ) -> None:
        if min_local_bsz < 1:
            raise ValueError(f"min_local_batch_size: {min_local_bsz} is less than 1")
        if max_local_bsz is not None and max_local_bsz < min_local_bsz:
            raise ValueError(
                f"max_local_batch_size: {max_local_bsz} is less than min_local_batch_size {min_local_bsz}"
            )
        if sizes < 2:
            raise ValueError(f"sizes: {sizes}; at least 2 are needed")
        self.min_local_bsz, self.max_local_bsz = min_local_bsz, max_local_bsz
        self.sizes, self.budget_s = sizes, budget_s
        self._rows: dict[int, StepRow] = {}
        self._failures: set[int] = set()
        for row in measured:
            self.record(row)
        for local_bsz in failed:
            self.out_of_memory(local_bsz)

    @property
    def largest(self) -> int | None:
        """Largest local batch size known to fit; None before the first."""
        return max(self._rows, default=None)

    @property
    def done(self) -> bool:
        return self.next() is None

    @property
    def spent_s(self) -> float:
        """Time of all measured steps, warm-up included."""
        return sum(row.step_time_s * (row.count + WARMUP_STEPS) for row in self._rows.values())

    def record(self, row: StepRow) -> None:
        """Note that a size was measured."""
        self._rows[row.local_bsz] = row

    def out_of_memory(self, local_bsz: int) -> None:
        """Note that a size did not fit, whether the process lived to tell or not."""
        self._failures.add(local_bsz)

    def next(self) -> ProfileStep | None:
        """Return the next size to measure; None when the plan is done.

        Done without a single row means that not even the smallest size fits.
        """
        local_bsz = self._next_size()
        if local_bsz is None:
            return None
        return ProfileStep(local_bsz, WARMUP_STEPS, self._timed_steps(local_bsz))

    def _next_size(self) -> int | None:
        largest = self.largest
        if largest is None:
            return self.min_local_bsz if not self._failures else None
        if self._failures:
            return self._between(largest, min(self._failures))
        if self.max_local_bsz is not None and largest >= self.max_local_bsz:
            return None
        size = self._grown(largest)
        return size if self._affordable(size) else None

    def _grown(self, local_bsz: int) -> int:
        grown = max(round(local_bsz * self._growth), local_bsz + 1)
        return grown if self.max_local_bsz is None else min(grown, self.max_local_bsz)

    @property
    def _bisections(self) -> int:
        """Sizes tried after the first that did not fit: those off the path of growth."""
        path, size = set[int](), self.min_local_bsz
        while size in self._rows and size not in path:
            path.add(size)
            size = self._grown(size)
        return len(self._failures | set(self._rows)) - len(path) - 1

    @property
    def _growth(self) -> float:
        if self.max_local_bsz is None:
            return 2.0
        return (self.max_local_bsz / self.min_local_bsz) ** (1 / (self.sizes - 1))

    def _between(self, fits: int, fails: int) -> int | None:
        """Return the geometric middle while it is worth a process: out of memory, it has to be replaced."""
        if self._bisections >= BISECTIONS or fails - fits < 2:
            return None
        middle = min(max(round(math.sqrt(fits * fails)), fits + 1), fails - 1)
        return middle if self._affordable(middle) else None

    def _expected_s(self, local_bsz: int) -> float:
        """Time of one step, taken to grow with the samples."""
        row = self._rows[max(size for size in self._rows if size <= local_bsz)]
        return row.step_time_s * local_bsz / row.local_bsz

    def _affordable(self, local_bsz: int) -> bool:
        return self.spent_s + (WARMUP_STEPS + MIN_TIMED_STEPS) * self._expected_s(local_bsz) <= self.budget_s

    def _timed_steps(self, local_bsz: int) -> int:
        if not self._rows:
            return MIN_TIMED_STEPS + WARMUP_STEPS  # nothing is known of its time yet
        step_s = self._expected_s(local_bsz)
        share_s = self.budget_s / (self.sizes + BISECTIONS)
        affordable = share_s / step_s if step_s > 0 else MAX_TIMED_STEPS
        return int(min(max(affordable - WARMUP_STEPS, MIN_TIMED_STEPS), MAX_TIMED_STEPS))


def profile_plan(
    config: TrainingConfig, gpu_type: str, pace: Pace | None, progress: ProfileProgress, least: int = 1
) -> ProfilePlan:
    """Return the plan of a job on a GPU type, as far as `progress` has come.

    `least`: the smallest local batch that the model should be given, whatever the job file allows.
    """
    most = largest_local_bsz(config, gpu_type, pace)
    smallest = max(config.min_local_batch_size, least, progress.floor)
    return ProfilePlan(smallest if most is None else min(smallest, most), most, progress.rows, progress.failed)


def largest_local_bsz(config: TrainingConfig, gpu_type: str, pace: Pace | None) -> int | None:
    """Return the most samples per pass on this GPU type, as far as anyone said; None: memory decides."""
    limit = config.max_local_batch_size
    limits = [
        limit.get(gpu_type) if isinstance(limit, dict) else limit,
        pace.max_local_bsz if pace is not None else None,
    ]
    return min((one for one in limits if one is not None), default=None)
