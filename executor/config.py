"""What the executor and the scheduler both need to know of a job's training.

`scheduler.job.JobSpec` embeds `TrainingConfig`; a training process receives it as JSON. The fields are
what a user writes under `training:` in a job file.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Adaptivity(StrEnum):
    """Which dimensions of a job may be adapted (Sia, section 3.3.4, "Support for limited adaptivity")."""

    ADAPTIVE = "adaptive"  # GPU type, GPU count and batch size
    STRONG_SCALING = "strong-scaling"  # GPU type and GPU count; the batch size is the user's
    RIGID = "rigid"  # GPU type only


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MetricTarget(_Strict):
    """Stop as soon as a reported metric reaches a value."""

    metric: str
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> MetricTarget:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("target needs exactly one of at_least and at_most")
        return self

    def reached(self, value: float) -> bool:
        return value >= self.at_least if self.at_least is not None else value <= (self.at_most or 0.0)


class CheckpointConfig(_Strict):
    """Where checkpoints go, how often and how many are kept."""

    url: str | None = None  # any fsspec URL or a path; None: the cluster's state directory
    every_minutes: float | None = Field(default=10.0, gt=0)
    at_epoch_end: bool = True
    keep: int = Field(default=2, ge=1)


class TrainingConfig(_Strict):
    """Batch limits, learning-rate rule, checkpoints and reports of one job."""

    adaptivity: Adaptivity = Adaptivity.ADAPTIVE
    # Total samples per optimizer step the hyper-parameters were tuned for; None: the script's own DataLoader's.
    initial_batch_size: int | None = Field(default=None, ge=1)
    max_batch_size: int | None = Field(default=None, ge=1)  # None: initial_batch_size (no batch adaptation)
    min_local_batch_size: int = Field(default=1, ge=1)
    # Largest samples per replica and pass; one number or one per GPU type. None: found by profiling.
    max_local_batch_size: Annotated[int, Field(ge=1)] | dict[str, Annotated[int, Field(ge=1)]] | None = None
    gradient_accumulation: bool = True
    # "auto": AdaScale for SGD-type optimizers, square root for Adam-type ones (Sia, section 3.3.5).
    # "module:function" names a user's own rule: factor = f(scale, gain).
    lr_scaling: (
        Literal["auto", "adascale", "sqrt", "linear", "legw", "none"]
        | Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
    ) = "auto"
    legw_warmup_epochs: float = Field(default=1.0, ge=0)
    target: MetricTarget | None = None
    seed: int = 0
    checkpoint: CheckpointConfig = CheckpointConfig()
    report_interval_s: float = Field(default=30.0, gt=0)
    # A rank that makes no step for so long is taken for hung, killed and recovered from.
    hang_timeout_s: float = Field(default=300.0, gt=0)

    @model_validator(mode="after")
    def _batch_limits_agree(self) -> TrainingConfig:
        first, most = self.initial_batch_size, self.max_batch_size
        if first is not None and most is not None and most < first:
            raise ValueError(f"max_batch_size: {most} is less than initial_batch_size {first}")
        if self.adaptivity is not Adaptivity.ADAPTIVE and most is not None and most != first:
            raise ValueError(
                f"max_batch_size: {most} has no meaning for a {self.adaptivity} job, whose batch size is fixed"
            )
        local = self.max_local_batch_size
        for limit in local.values() if isinstance(local, dict) else [local]:
            if limit is not None and limit < self.min_local_batch_size:
                raise ValueError(
                    f"max_local_batch_size: {limit} is less than min_local_batch_size {self.min_local_batch_size}"
                )
        return self
