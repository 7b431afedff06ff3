"""What the submission of a job and the jobs that had ended before say of its length, as numbers.

Sources: Helios (SC'21), section on QSSF, for owner, VC, name, GPUs, CPUs, calendar and the rolling means. The
rolling means as features of the trees are our own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..job_history import EndedJob, SubmittedJob
from .names import NameBuckets
from .rolling import Key, Rolling, RollingLengths

Floats = NDArray[np.float64]
OWNER, POOL, NAME = 0, 1, 2  # columns that are codes
CODES = (OWNER, POOL, NAME)
ABOUT = ("owner", "pool", "name", "gpus", "cpus", "cpus_per_gpu", "month", "day", "weekday", "hour", "minute")
# Groups of like jobs, the closest first.
GROUPS = (
    "owner_name", "owner_gpus_cpus", "owner_gpus", "owner", "gpus", "pool_gpus", "pool", "all",
)  # fmt: skip
OF_GROUP = ("newest_mean_s", "newest_log_mean", "last_s", "since_s", "mean_s", "log_mean", "count")
PROFILE = ("gpu_util", "memory_util", "memory_gib", "mixed_precision")  # nan before a short run has shown them
COLUMNS = (*ABOUT, *(f"{group}_{what}" for group in GROUPS for what in OF_GROUP), *PROFILE, "start_log")
START = len(COLUMNS) - 1


UNKNOWN_S = 3600.0  # of a job before any has ended
FIRST_SPREAD = 1.5  # of the log of a length, before trees are fitted
TRUSTED, TRUSTED_OF_NAME = 10.0, 1.0  # one job of the same owner and name says more than ten of the same size
OWNER_NAME = GROUPS.index("owner_name")
NARROWING = tuple(
    GROUPS.index(name)
    for name in ("all", "gpus", "pool_gpus", "owner", "owner_gpus", "owner_gpus_cpus", "owner_name")
)


@dataclass(frozen=True)
class Row:
    """What is known of one job at its submission.

    numbers: (columns of `COLUMNS`,); nan where nothing is known. The last is the log of the typical length of like
        jobs, from which trees go on.
    rolling_s: mean of the closest group of like jobs, by the three cases of Helios; None: no job has ended.
    basis: what `rolling_s` goes by.
    spread: standard deviation of the log of the length, as far as it is known without trees.
    """

    numbers: Floats
    rolling_s: float | None
    basis: str
    spread: float = FIRST_SPREAD


class Buckets(Protocol):
    """Puts names that are alike into one bucket."""

    def of(self, owner: str, name: str) -> str:
        """Return the bucket of a name; "" for a job without one."""


class JobFeatures:
    """Turns submitted jobs into rows, by the jobs that have ended until then.

    Args:
        decay: weight of a job beside the next in rolling means, 0..1.
        similarity: of names that count as one, 0..1.
        utc_offset_s: from UTC to the clock that people submit by.
        names: buckets of names; None: of each owner, names that are similar, as they come.

    Raises:
        ValueError: for a decay or similarity outside of 0..1.
    """

    def __init__(
        self, decay: float = 0.8, similarity: float = 0.6, utc_offset_s: float = 0.0, names: Buckets | None = None
    ) -> None:
        self._rolling, self._names = RollingLengths(decay), names or NameBuckets(similarity)
        self._offset_s = utc_offset_s
        self._until_s = -math.inf  # when the last job that counts has ended
        self._codes: dict[str, dict[str, int]] = {name: {} for name in ("owner", "pool", "name")}

    @property
    def codes(self) -> Mapping[str, Mapping[str, int]]:
        """Return the number that stands for each owner, pool and bucket of names."""
        return {name: dict(known) for name, known in self._codes.items()}

    def use_codes(self, codes: Mapping[str, Mapping[str, int]]) -> None:
        """Use these numbers for owners, pools and names; others get new ones."""
        self._codes = {name: dict(codes[name]) for name in self._codes}

    def ended(self, done: EndedJob) -> None:
        """Count a job that has ended; it counts for all rows from now on."""
        self._until_s = max(self._until_s, done.ended_s)
        for key in self._keys(done.job):
            if key is not None:
                self._rolling.add(key, done.trained_s, done.ended_s)

    def row(self, job: SubmittedJob) -> Row:
        """Return what is known of a job now.

        Raises:
            ValueError: in one sentence, where a job counts that ended after this one was submitted.
        """
        if self._until_s > job.submitted_s:
            raise ValueError(
                f"history: goes on to {self._until_s:.0f} s, after job {job.id} was submitted at "
                f"{job.submitted_s:.0f} s; only jobs that ended before are accepted"
            )
        groups = [None if key is None else self._rolling.of(key) for key in self._keys(job)]
        profile = job.use or (math.nan,) * len(PROFILE)
        numbers = np.array(
            [*self._about(job), *_of_groups(groups, job.submitted_s), *profile, _start(groups)], float
        )
        return Row(numbers, *_three_cases(groups), _spread(groups[OWNER_NAME]))

    def _keys(self, job: SubmittedJob) -> tuple[Key | None, ...]:
        """Return the job's groups, in the order of `GROUPS`; None: it is in no such group."""
        bucket = self._names.of(job.owner, job.name)
        return (
            (0, job.owner, bucket) if bucket else None,
            (1, job.owner, job.gpus, job.cpus),
            (2, job.owner, job.gpus),
            (3, job.owner),
            (4, job.gpus),
            (5, job.pool, job.gpus),
            (6, job.pool),
            (7,),
        )

    def _about(self, job: SubmittedJob) -> tuple[float, ...]:
        at = datetime.fromtimestamp(job.submitted_s + self._offset_s, UTC)
        return (
            self._code("owner", job.owner),
            self._code("pool", job.pool),
            self._code("name", self._names.of(job.owner, job.name)),
            job.gpus,
            job.cpus,
            job.cpus / max(job.gpus, 1),
            at.month,
            at.day,
            at.weekday(),
            at.hour,
            at.minute,
        )

    def _code(self, kind: str, value: str) -> int:
        known = self._codes[kind]
        return known.setdefault(value, len(known))


def _of_groups(groups: list[Rolling | None], now: float) -> list[float]:
    found: list[float] = []
    for group in groups:
        if group is None:
            found += (math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, 0.0)
        else:
            found += (
                group.newest_mean_s,
                group.weighted_log / group.weight,
                group.last_s,
                now - group.ended_s,
                group.mean_s,
                group.sum_log / group.count,
                float(group.count),
            )
    return found


def _start(groups: list[Rolling | None]) -> float:
    """Return the mean log of like jobs, that of each group drawn towards that of the next wider one.

    A group of `TRUSTED` jobs counts as much as the wider group; of one name fewer do. Single groups are small, and
    lengths vary a thousandfold.
    """
    found = math.log(UNKNOWN_S)
    for index in NARROWING:
        if (group := groups[index]) is not None:
            trusted = TRUSTED_OF_NAME if index == OWNER_NAME else TRUSTED
            found = (group.sum_log + trusted * found) / (group.count + trusted)
    return found


def _spread(named: Rolling | None) -> float:
    """Return how far jobs of one owner and name lie apart, drawn towards what is usual."""
    if named is None:
        return FIRST_SPREAD
    within = max(named.sum_log_squares - named.sum_log**2 / named.count, 0.0)
    return math.sqrt((TRUSTED_OF_NAME * FIRST_SPREAD**2 + within) / (TRUSTED_OF_NAME + named.count))


# What the rolling estimate goes by, in the order in which groups are asked; `newest`: the newest weighs most.
_CASES = (
    (GROUPS.index("owner_name"), True, "of its owner and name"),
    (GROUPS.index("owner_gpus"), False, "of its owner and size"),
    (GROUPS.index("owner"), False, "of its owner"),
    (GROUPS.index("gpus"), False, "of its size"),
    (GROUPS.index("all"), False, "of all owners"),
)


def _three_cases(groups: list[Rolling | None]) -> tuple[float | None, str]:
    """Return the rolling estimate and its basis (Helios, section on the rolling estimator).

    A known name: the mean in which the newest weighs most. A known owner: the mean of the owner's jobs of that
    size. A new owner: the mean of all jobs of that size. Where such jobs are missing, the next wider group counts.
    """
    for index, newest, of_what in _CASES:
        group = groups[index]
        if group is not None:
            jobs = f"{group.count} earlier job{'s' * (group.count > 1)} {of_what}"
            return (group.newest_mean_s if newest else group.mean_s), jobs
    return None, "a guess, as no earlier job has ended"
