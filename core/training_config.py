"""What the executor and the scheduler both need to know of a job's training.

`core.job.JobSpec` embeds `TrainingConfig`; a training process receives it as JSON. The fields are
what a user writes under `training:` in a job file.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Samples = Annotated[int, Field(ge=1, le=2**31)]


class Adaptivity(StrEnum):
    """Which dimensions of a job may be adapted (Sia, section 3.3.4, "Support for limited adaptivity")."""

    ADAPTIVE = "adaptive"  # GPU type, GPU count and batch size
    STRONG_SCALING = "strong-scaling"  # GPU type and GPU count; the batch size is the user's
    RIGID = "rigid"  # GPU type only


class Count(StrEnum):
    """What ends a training whose batch size is adapted."""

    PROGRESS = "progress"  # of the epochs or steps asked for, at the initial batch size
    PASSES = "passes"  # over the data, however large the batches


class _Strict(BaseModel):
    # A string below a field is its description: in the published schema and in error messages.
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, hide_input_in_errors=True
    )


class MetricTarget(_Strict):
    """Stop as soon as a reported metric reaches a value."""

    metric: Annotated[str, Field(min_length=1)]
    """Name of a metric the script passes to `coadapt.report`."""
    at_least: float | None = None
    """Stop when the metric is this or more."""
    at_most: float | None = None
    """Stop when the metric is this or less."""

    @model_validator(mode="after")
    def _one_bound(self) -> MetricTarget:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("target needs exactly one of at_least and at_most")
        return self

    def reached(self, value: float) -> bool:
        return value >= self.at_least if self.at_least is not None else value <= (self.at_most or 0.0)


class CheckpointConfig(_Strict):
    """Where checkpoints go, how often and how many are kept."""

    url: str | None = None
    """Any fsspec URL or an absolute path; by default the cluster's state directory."""
    every_minutes: float | None = Field(default=10.0, gt=0)
    """Minutes between checkpoints; null: only at epoch ends and resizes."""
    at_epoch_end: bool = True
    """Write a checkpoint at the end of each epoch."""
    keep: int = Field(default=2, ge=1, le=1000)
    """Newest checkpoints kept."""

    @model_validator(mode="after")
    def _absolute(self) -> CheckpointConfig:
        if self.url is not None and "://" not in self.url and not self.url.startswith("/"):
            raise ValueError(
                f"url: {self.url} is a relative path; give an absolute path or a URL such as s3://bucket/dir"
            )
        return self


class TrainingConfig(_Strict):
    """Batch limits, learning-rate rule, checkpoints and reports of one job."""

    adaptivity: Adaptivity = Adaptivity.ADAPTIVE
    """What may be adapted: everything, the GPU count and type at a fixed batch size, or the GPU type only."""
    initial_batch_size: Samples | None = None
    """Samples per optimizer step the hyper-parameters were tuned for; by default the script's DataLoader's."""
    max_batch_size: Samples | None = None
    """Largest total batch size; by default initial_batch_size, so that the batch size stays."""
    min_local_batch_size: Samples = 1
    """Smallest samples per replica and pass."""
    max_local_batch_size: Samples | dict[str, Samples] | None = None
    """Largest samples per replica and pass, one number or one per GPU type; by default found by profiling."""
    gradient_accumulation: bool = True
    """Whether a step may take several passes."""
    lr_scaling: (
        Literal["auto", "adascale", "sqrt", "linear", "legw", "none"]
        | Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
    ) = "auto"
    """How the learning rate follows the batch size.

    "auto" is AdaScale for SGD-type optimizers and square root for Adam-type ones (Sia, section 3.3.5);
    "module:function" names a rule of yours: factor = f(scale, gain).
    """
    legw_warmup_epochs: float = Field(default=1.0, ge=0)
    """Warm-up epochs at the initial batch size, for lr_scaling "legw"."""
    count: Count = Count.PROGRESS
    """What `epochs(n)` and `steps(n)` count: progress at the initial batch size, or passes over the data."""
    fuse_batches: Literal["auto", "always", "never"] = "auto"
    """Whether a loop may be given larger batches than the script's own; "auto": where it does not count them."""
    target: MetricTarget | None = None
    """Stop as soon as a reported metric reaches a value."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Seed of the order of samples."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """Where checkpoints go, how often and how many are kept."""
    report_interval_s: float = Field(default=30.0, gt=0)
    """Seconds between measurements sent to the scheduler."""
    hang_timeout_s: float = Field(default=300.0, gt=0)
    """A rank that makes no step for so many seconds is taken for hung, killed and recovered from."""

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
