"""A job: what the user wrote (`JobSpec`) and what became of it (`JobState`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..executor.config import Adaptivity, TrainingConfig

Positive = Annotated[int, Field(ge=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Resources(_Strict):
    """GPUs a job may use. Every count is GPUs, not replicas."""

    min_gpus: Positive = 1
    max_gpus: Positive = 64
    gpus: Positive | None = None  # a rigid job's fixed count
    gpu_types: Annotated[list[str], Field(min_length=1)] | None = None  # None: every type
    # GPUs of one replica: more than 1 for a pipeline-parallel job, one number or one per GPU type.
    gpus_per_replica: Positive | dict[str, Positive] = 1
    cpus_per_gpu: float = Field(default=1.0, ge=0)
    memory_gib_per_gpu: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _ordered(self) -> Resources:
        if self.min_gpus > self.max_gpus:
            raise ValueError(f"min_gpus: {self.min_gpus} is more than max_gpus {self.max_gpus}")
        return self


class Reservation(_Strict):
    """GPUs of one type forced into every plan while the job is active (Sia, "Preemption and reservation")."""

    gpu_type: str
    gpus: Positive


class Emulation(_Strict):
    """How fast the job would be, for nodes that are emulated on CPU; a real GPU is never paced."""

    profile: str = "cifar10"  # a model of executor/pace_profiles.json
    time_scale: float = Field(default=1.0, gt=0)  # 10: ten times faster than the measured GPUs


class JobSpec(_Strict):
    """One training run as its user describes it: the schema of a job file."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
    script: str  # path of the training script inside working_dir
    args: list[str] = []
    working_dir: str = "."
    env: dict[str, str] = {}
    pip: list[str] = []  # requirements installed on the nodes for this job
    resources: Resources = Resources()
    training: TrainingConfig = TrainingConfig()
    preemptible: bool = True
    reservation: Reservation | None = None
    # Runs and failures: user errors are bounded, lost machines are not the job's fault.
    max_failures: int = Field(default=3, ge=0)
    # Jobs with the same fingerprint share profiles; None: derived from the model's structure.
    fingerprint: str | None = None
    profile: bool = True  # profile before the first run
    emulation: Emulation = Emulation()

    @model_validator(mode="after")
    def _rigid_needs_a_count(self) -> JobSpec:
        rigid = self.training.adaptivity is Adaptivity.RIGID
        if rigid and self.resources.gpus is None:
            raise ValueError("resources.gpus: a rigid job needs a fixed GPU count")
        if not rigid and self.resources.gpus is not None:
            raise ValueError(
                f"resources.gpus: {self.resources.gpus} is only for rigid jobs; use min_gpus and max_gpus"
            )
        return self

    def gpus_per_replica(self, gpu_type: str) -> int | None:
        """GPUs of one replica on a GPU type; None where the job cannot run on it."""
        types = self.resources.gpu_types
        if types is not None and gpu_type not in types:
            return None
        per_replica = self.resources.gpus_per_replica
        return per_replica.get(gpu_type) if isinstance(per_replica, dict) else per_replica


class Phase(StrEnum):
    """Where a job is in its life (Sia, figure 3.2)."""

    SUBMITTED = "submitted"  # stored, nothing done yet
    PROFILING = "profiling"  # measuring one replica on each GPU type
    QUEUED = "queued"  # can run, has no GPUs
    RUNNING = "running"  # has GPUs (starting, training or being resized)
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED)


@dataclass(frozen=True)
class JobState:
    """What became of a job; changed only by a transaction in the store.

    Times are seconds since the epoch. `reason` is one sentence for a person. `failures` counts the user's
    own errors, `recoveries` lost workers, executors and nodes.
    """

    phase: Phase = Phase.SUBMITTED
    reason: str = ""
    submitted_s: float = 0.0
    started_s: float | None = None
    finished_s: float | None = None
    restarts: int = 0
    failures: int = 0
    recoveries: int = 0
    evictions: int = 0
