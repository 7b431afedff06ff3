"""How the samples of one optimizer step are divided over passes and replicas."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BatchPlan:
    """Samples of one optimizer step: replicas x local_bsz x (accumulation + 1), or exactly `batch_size`.

    With `batch_size` set the step takes that many samples, split as evenly as replicas and passes allow.
    Strong-scaling and rigid jobs have it. Gradients are weighted by samples, so uneven parts stay exact.
    """

    local_bsz: int
    accumulation: int = 0
    batch_size: int | None = None
