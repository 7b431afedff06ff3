"""What training says of itself: step times, progress, the script's habits, and reports of all of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True)
class JobInfo:
    """What the script itself says of the job, at `coadapt.prepare`."""

    fingerprint: str
    initial_batch_size: int
    parameters: int
    dataset_size: int | None
    adam_type: bool
    # What training has shown of the script's loop since:
    per_step: int = 1  # batches to a step of its own
    whole_batches: bool = True  # it has to be given its own batches
    one_pass: bool = False  # a batch cannot be taken in several passes, nor several to a step
    undivided: bool = False  # a batch cannot be taken in several passes, but several may make a step
    least_local_bsz: int = 1  # samples a replica's batch should have, for statistics or a loss over it
    asked_samples: float | None = None  # of its epochs or steps together, as its profile run saw; None: not known


@dataclass(frozen=True)
class StepRow:
    """Mean times of `count` equal optimizer steps; seconds."""

    nodes: int
    replicas: int
    local_bsz: int
    accumulation: int
    step_time_s: float  # the whole optimizer step
    sync_time_s: float  # part of it spent waiting for gradient all-reduce
    count: int
    wait_s: float = 0.0  # part of it in which loader workers were waited for

    def without_wait(self) -> StepRow:
        """Return what the step would take if loader workers were always ahead."""
        if not self.wait_s:
            return self
        alone_s = self.step_time_s - self.wait_s
        return replace(self, step_time_s=alone_s, sync_time_s=min(self.sync_time_s, alone_s), wait_s=0.0)


@dataclass(frozen=True)
class Progress:
    epoch: int
    epochs: int | None
    fraction: float  # of what was asked for, 0..1, as `training.count` counts
    steps: int
    samples: int  # really processed
    progress_samples: float  # at the initial batch size: sum over steps of gain x initial batch size


@dataclass(frozen=True)
class Habits:
    """What the script's loop was seen to do."""

    per_step: int = 1  # batches to a step of its own
    whole_batches: bool = True  # it has to be given its own batches, not larger ones
    one_pass: bool = False  # a batch cannot be taken in several passes, nor several to a step
    undivided: bool = False  # a batch cannot be taken in several passes, but several may make a step
    least_local_bsz: int = 1  # samples a replica's batch should have; all where the loss needs whole batches


@dataclass(frozen=True)
class MeasuredAt:
    """Where in the training a metric was measured: in which epoch, from 1, and after how many samples."""

    epoch: int
    samples: int  # really processed, of all epochs together


@dataclass(frozen=True)
class TrialRow:
    """What trials of a group reported in an epoch: a number of each trial for each metric.

    epoch: after so many. trials: their numbers. left: trials that have left the group, and whose states stay in
    its checkpoint. memory_gib: of the GPU, the most that was in use since the row before; gpu_gib: what it has.
    Both are 0 where nobody knows. notes: sentences for the study's user, before the first epoch has ended.
    """

    epoch: int
    trials: tuple[int, ...]
    metrics: Mapping[str, Sequence[float]] = field(default_factory=dict)
    left: tuple[int, ...] = ()
    memory_gib: float = 0.0
    gpu_gib: float = 0.0
    notes: tuple[str, ...] = ()

    def means(self) -> dict[str, float]:
        """Return the mean of each metric over the trials whose number is finite; NaN where none is."""
        return {name: _mean([one for one in own if math.isfinite(one)]) for name, own in self.metrics.items()}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


@dataclass(frozen=True)
class Report:
    """Sent by rank 0 every report interval, at epoch ends and before leaving."""

    generation: int
    gpu_type: str
    nodes: int
    replicas: int
    rows: Sequence[StepRow]  # since the last report
    grad_sqr: float | None  # |E g|^2, preconditioned for Adam-type optimizers
    grad_var: float | None  # trace of the per-sample gradient covariance; noise scale = var / sqr
    batch_size: int
    local_bsz: int
    accumulation: int
    lr: float
    gain: float
    progress: Progress
    metrics: Mapping[str, float] = field(default_factory=dict)
    habits: Habits | None = None
    measured_at: Mapping[str, MeasuredAt] | None = None  # of `metrics`, by name; None: of an earlier version
    loader_workers: int = 0  # of each replica, in all steps of `rows`; 0: none, or their number has changed
    trials: tuple[TrialRow, ...] = ()  # of a group of trials: what each reported since the last report


LEAST_TRAINED_S = 1.0  # of steps, to tell the rate of an input by them


@dataclass(frozen=True)
class InputRow:
    """Samples per second that loader workers on so many CPUs prepare, of samples that are in memory."""

    cpus: int
    samples_per_s: float


@dataclass(frozen=True)
class MeasuredInput:
    """What is known of the input of one GPU.

    most: CPUs that were free when it was measured.
    sample_bytes: of a sample in the cache, on average; 0: the script keeps none.
    stored_per_s: samples/s from the storage; 0: it is not slower than all CPUs.
    process_gib: memory of the training process with its loader workers; 0: not measured.
    processes: that have begun to measure it.
    """

    rows: tuple[InputRow, ...] = ()
    most: int = 0
    sample_bytes: float = 0.0
    stored_per_s: float = 0.0
    process_gib: float = 0.0
    processes: int = 0
    done: bool = False

    @property
    def rates(self) -> dict[int, float]:
        """Samples/s by CPUs."""
        return {row.cpus: row.samples_per_s for row in self.rows}

    def with_row(self, cpus: int, samples_per_s: float) -> MeasuredInput:
        return replace(self, rows=(*self.rows, InputRow(cpus, samples_per_s)))

    def with_training(self, report: Report) -> MeasuredInput:
        """Return it with the rate of a training that has more CPUs than it was measured on.

        Where loader workers are waited for, the input is as fast as the training, else at least as fast.
        """
        cpus, seconds = report.loader_workers, sum(row.step_time_s * row.count for row in report.rows)
        if not self.done or cpus <= self.most or seconds < LEAST_TRAINED_S:
            return self
        steps = (row.local_bsz * (row.accumulation + 1) * row.count for row in report.rows)
        return replace(self.with_row(cpus, sum(steps) / seconds), most=cpus)

    @classmethod
    def of_dict(cls, data: Mapping[str, Any]) -> MeasuredInput:
        """Return what `asdict` gave. Raises: KeyError or TypeError for anything else."""
        known = {one.name for one in fields(cls)}
        rows = tuple(InputRow(**row) for row in data["rows"])
        return cls(**{name: value for name, value in data.items() if name in known} | {"rows": rows})


@dataclass(frozen=True)
class ProfileProgress:
    """What the processes of one profile run have found out so far."""

    rows: tuple[StepRow, ...] = ()
    failed: tuple[int, ...] = ()  # local batch sizes at which memory ran out
    floor: int = 1  # smaller ones make the script fail
    asked_samples: float | None = None  # of the script's epochs or steps together; None: not seen
    input: MeasuredInput | None = None

    def with_asked(self, samples: float | None) -> ProfileProgress:
        """Return it with what the script asks for; None changes nothing."""
        return self if samples is None else replace(self, asked_samples=samples)

    def with_row(self, row: StepRow) -> ProfileProgress:
        return replace(self, rows=(*self.rows, row))

    def out_of_memory(self, local_bsz: int) -> ProfileProgress:
        return replace(self, failed=(*self.failed, local_bsz))

    def too_small(self, local_bsz: int) -> ProfileProgress:
        """Note that the script fails at a local batch size, and may not at twice that."""
        return replace(self, floor=max(self.floor, 2 * local_bsz))

    def to_json(self) -> str:
        rows = [asdict(row) for row in self.rows]
        told = {"rows": rows, "failed": self.failed, "floor": self.floor, "asked_samples": self.asked_samples}
        return json.dumps(told | {"input": None if self.input is None else asdict(self.input)})

    @classmethod
    def from_json(cls, text: str) -> ProfileProgress:
        data = json.loads(text)
        rows = tuple(StepRow(**row) for row in data["rows"])
        measured = data.get("input")
        measured = None if measured is None else MeasuredInput.of_dict(measured)
        return cls(rows, tuple(data["failed"]), data["floor"], data.get("asked_samples"), measured)


NOTHING_PROFILED = ProfileProgress()
