"""Least attained service: jobs with fewest GPU-seconds run, in a few levels (Tiresias, NSDI'19, section 3.3)."""

from __future__ import annotations

import numpy as np
from pydantic import Field, field_validator

from .contract.round import JobColumns, JobView
from .contract.traits import PolicyTraits
from .provisioning.options import provisioned
from .queueing import ProvisionedOptions, QueueingPolicy
from .registry import register


class LasOptions(ProvisionedOptions):
    # GPU-seconds at which a job falls to the next level. Without any, jobs are ordered by GPU-seconds alone.
    thresholds_gpu_s: tuple[float, ...] = Field(default=(18_000.0,))

    @field_validator("thresholds_gpu_s")
    @classmethod
    def _rise(cls, thresholds: tuple[float, ...]) -> tuple[float, ...]:
        if not all(b > a for a, b in zip((0.0, *thresholds), thresholds, strict=False)):
            raise ValueError("thresholds must be above 0 and rise")
        return thresholds


@register("las")
class LasPolicy(QueueingPolicy):
    """Two-dimensional LAS of Tiresias: service is GPUs times seconds. Within a level, first come, first served."""

    Options = LasOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=True)
    options: LasOptions

    def __init__(self, options: LasOptions | None = None) -> None:
        self.options = options or LasOptions()
        self.traits = provisioned(self.traits, self.options)

    def key(self, columns: JobColumns) -> np.ndarray:
        thresholds = self.options.thresholds_gpu_s
        if not thresholds:
            return columns.attained_gpu_s
        return np.searchsorted(np.array(thresholds), columns.attained_gpu_s, side="right").astype(float)

    def standing(self, job: JobView) -> str:
        served = f"It has had {job.attained_gpu_s:.0f} GPU-seconds"
        thresholds = self.options.thresholds_gpu_s
        if not thresholds:
            return f"The jobs that had least run first. {served}."
        level = int(np.searchsorted(np.array(thresholds), job.attained_gpu_s, side="right"))
        return f"The jobs of the lowest level run first. {served}: level {level} of 0 to {len(thresholds)}."
