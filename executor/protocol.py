"""What a training process and its executor say to each other.

A training process runs the user's script as `__main__` and knows no Ray. It talks over a socket pair with
the worker actor that started it, which relays to the job's `AdaptiveExecutor`. Everything here is plain,
frozen and picklable. Commands travel down, events up.

The life of one training process:
    script reaches `coadapt.prepare` -> `Ready` -> `Join` -> `Joined` -> training, `Heartbeat`s, `Report`s
    at a control point (a step boundary all ranks agree on): regroup (`Join`/`Leave`), `SetBatch`, `Save`, `Stop`
    a collective failed -> the step is undone, `Broken` -> `Join` of the next generation
    -> `Finished` | `Left` | `Crashed`

In profile mode there is no group: after `Ready` the process measures by itself, without waiting for `Join`, sends
`Trying` before and `Profiled` after each local batch size and exits after the one that is `done`. When memory
runs out, whether the process lives to tell or not, it is replaced by one that goes on from its `ProfileProgress`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

# Environment of a training process, set by the worker actor. Absent: the script runs by itself.
CHANNEL_FD = "COADAPT_CHANNEL_FD"  # inherited socket for commands and events
MODE = "COADAPT_MODE"  # "train" or "profile"
TRAINING_JSON = "COADAPT_TRAINING"  # TrainingConfig as JSON
CHECKPOINT_URL = "COADAPT_CHECKPOINT_URL"  # this job's checkpoint folder
GPU_TYPE = "COADAPT_GPU_TYPE"
JOB_ID = "COADAPT_JOB_ID"
OUTPUT_DIR = "COADAPT_OUTPUT_DIR"  # what the script writes there is kept with its checkpoints
PACE_JSON = "COADAPT_PACE"  # {"profile": …, "time_scale": …}: only on emulated nodes
PROFILE_JSON = "COADAPT_PROFILE"  # ProfileProgress as JSON: only in profile mode


@dataclass(frozen=True)
class BatchPlan:
    """Samples of one optimizer step: replicas x local_bsz x (accumulation + 1), or exactly `batch_size`.

    With `batch_size` set the step takes that many samples, split as evenly as replicas and passes allow
    (strong-scaling and rigid jobs); gradients are weighted by samples, so uneven parts stay exact.
    """

    local_bsz: int
    accumulation: int = 0
    batch_size: int | None = None


# --- commands: executor -> training process -------------------------------------------------------------


@dataclass(frozen=True)
class Join:
    """Be `rank` of group `generation`.

    Sent to every member of the new group, survivors and newcomers. Inside the new group the state comes from
    the most advanced live rank; where no rank is live, from the newest valid checkpoint; else from rank 0.
    """

    generation: int
    rank: int
    world_size: int
    nodes: int
    local_rank: int
    local_world_size: int
    store_host: str
    store_port: int
    batch: BatchPlan | None = None  # None: what the session works out from the initial batch size


@dataclass(frozen=True)
class Leave:
    """Not a member of `generation`: exit at the control point that starts it, after saving if `save`."""

    generation: int
    save: bool = False


@dataclass(frozen=True)
class SetBatch:
    batch: BatchPlan


@dataclass(frozen=True)
class Save:
    """Write a checkpoint at the next control point and go on."""


@dataclass(frozen=True)
class Stop:
    """Leave at the next control point; with `save`, after writing a checkpoint."""

    save: bool = True


@dataclass(frozen=True)
class Abort:
    """A member of `generation` is gone: fail every pending collective of that group now.

    A process that was sent `Join(generation)` and has not formed that group yet gives it up too and answers
    `Broken(generation)`. Of several `Join`s waiting, the newest counts.
    """

    generation: int


Command = Join | Leave | SetBatch | Save | Stop | Abort

# --- events: training process -> executor ---------------------------------------------------------------


@dataclass(frozen=True)
class Ready:
    """The script reached `prepare` and waits for `Join`."""

    fingerprint: str  # model structure and parameter shapes
    initial_batch_size: int  # the script's own total batch size
    parameters: int
    dataset_size: int | None
    optimizer: str  # class name
    adam_type: bool
    has_state: bool = False
    least_local_bsz: int = 1  # samples a replica's batch should have, for statistics over it


@dataclass(frozen=True)
class Joined:
    generation: int
    steps: int
    source: str  # "peer", "checkpoint" or "fresh"


@dataclass(frozen=True)
class Heartbeat:
    generation: int
    steps: int


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


@dataclass(frozen=True)
class ProfileProgress:
    """What the processes of one profile run have found out so far."""

    rows: tuple[StepRow, ...] = ()
    failed: tuple[int, ...] = ()  # local batch sizes at which memory ran out
    floor: int = 1  # smaller ones make the script fail

    def with_row(self, row: StepRow) -> ProfileProgress:
        return replace(self, rows=(*self.rows, row))

    def out_of_memory(self, local_bsz: int) -> ProfileProgress:
        return replace(self, failed=(*self.failed, local_bsz))

    def too_small(self, local_bsz: int) -> ProfileProgress:
        """The script fails at a local batch size, and may not at twice that."""
        return replace(self, floor=max(self.floor, 2 * local_bsz))

    def to_json(self) -> str:
        rows = [asdict(row) for row in self.rows]
        return json.dumps({"rows": rows, "failed": self.failed, "floor": self.floor})

    @classmethod
    def from_json(cls, text: str) -> ProfileProgress:
        data = json.loads(text)
        return cls(tuple(StepRow(**row) for row in data["rows"]), tuple(data["failed"]), data["floor"])


NOTHING_PROFILED = ProfileProgress()


@dataclass(frozen=True)
class Trying:
    """The local batch size that is measured next: what a process died of that says nothing more."""

    local_bsz: int


@dataclass(frozen=True)
class Profiled:
    """One more local batch size measured in profile mode; the last one has `done`."""

    row: StepRow | None
    done: bool = False


@dataclass(frozen=True)
class Saved:
    path: str
    steps: int


@dataclass(frozen=True)
class Broken:
    """A collective of `generation` failed; the running step was undone and the process waits for `Join`."""

    generation: int
    steps: int


@dataclass(frozen=True)
class Left:
    """Stopped as asked; the process exits now."""

    steps: int
    saved: str | None = None


@dataclass(frozen=True)
class Finished:
    """The script ended by itself after its last epoch (or at its target metric)."""

    steps: int
    target_reached: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    ended_early: str = ""  # how far it was, where it ended by itself before what it had asked for


@dataclass(frozen=True)
class Crashed:
    """The script ended with an error: `summary` is its type and first line.

    `out_of_memory`: what profiling looks for.
    """

    summary: str
    traceback: str
    out_of_memory: bool = False
    unfit: bool = False  # a newcomer could not take over the state of those that train


Event = Ready | Joined | Heartbeat | Report | Trying | Profiled | Saved | Broken | Left | Finished | Crashed
