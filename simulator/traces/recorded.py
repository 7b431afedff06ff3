"""Jobs as a live cluster recorded them. Each has its own measured model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ...core.usage import Usage
from ...estimators.affinity.uses import Floats, row_of, usage_of


@dataclass(frozen=True)
class RecordedThroughput:
    """The throughput on one GPU type: `ThroughputParams` by name, and the largest local batch size."""

    params: Mapping[str, float]
    max_local_bsz: int
    gpus_per_replica: int = 1


@dataclass(frozen=True)
class RecordedModel:
    """What was measured of a job. All times are means.

    `samples`: those at its initial batch size until it ended.
    `slowdown`: how much longer it trained than `throughput` says, with evaluations, checkpoints and so on.
    `start_s`: from being given GPUs to training on them. A job that has others trains on those meanwhile, and then
        pauses for `pause_s`. None: every change costs `restart_s`.
    `restart_s`: what policies assume that a restart costs.
    `assumed_restart_s`: what policies assume before the first restart; None: `restart_s`.
    """

    throughput: Mapping[str, RecordedThroughput]  # GPU type ->
    initial_batch_size: int
    max_batch_size: int
    samples: float
    min_local_bsz: int = 1
    noise_scale: float | None = None
    slowdown: float = 1.0
    restart_s: float = 0.0
    start_s: float | None = None
    pause_s: float = 0.0
    assumed_restart_s: float | None = None


@dataclass(frozen=True)
class RecordedUse:
    """What a job used of its GPUs: parts of the time from 0 to 1, and GiB per GPU; None: not known.

    Raises: ValueError, in one sentence, for a value out of range.
    """

    gpu_util: float | None = None
    memory_util: float | None = None
    memory_gib: float | None = None
    mixed_precision: float | None = None

    def __post_init__(self) -> None:
        usage_of(self.gpu_util, self.memory_util, self.memory_gib)
        if self.mixed_precision not in (None, 0.0, 1.0):
            raise ValueError(f"mixed_precision: {self.mixed_precision:g} is not accepted, must be 0 or 1")

    @property
    def usage(self) -> Usage:
        return usage_of(self.gpu_util, self.memory_util, self.memory_gib)

    @property
    def row(self) -> Floats:
        """Return (features,) of `estimators.affinity.uses`."""
        return row_of(self.usage, None if self.mixed_precision is None else bool(self.mixed_precision))


@dataclass(frozen=True)
class RecordedProfile:
    """A profile run of a job.

    It held `gpus` GPUs of a type for `for_s` seconds, from `after_s` seconds after the job came. Raise
    ValueError for values out of range.
    """

    gpu_type: str
    for_s: float
    after_s: float = 0.0
    gpus: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.for_s < math.inf and 0 <= self.after_s < math.inf and self.gpus >= 1):
            raise ValueError(
                f"profiles: {self.gpus} {self.gpu_type} for {self.for_s} s after {self.after_s} s must be "
                "at least 1 GPU for more than 0 s after 0 s or more"
            )
