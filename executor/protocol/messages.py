"""The commands and events between a training process and its executor.

A training process runs the user's script as `__main__` and knows no Ray. A socket pair connects it with the worker
actor that started it, which relays to the job's `AdaptiveExecutor`. Commands travel down, events up. Between
process and worker they are JSON (`wire.py`), so that nothing which a script sends is unpickled.

The life of one training process:

    script reaches `coadapt.prepare` -> `Ready` -> `Join` -> `Joined` -> training, `Heartbeat`s, `Report`s
    at a control point (a step boundary all ranks agree on): regroup (`Join`/`Leave`), `SetBatch`, `Provide`,
        `Save`, `Stop`, `Keep`
    a collective failed -> the step is undone, `Broken` -> `Join` of the next generation
    -> `Finished` | `Left` | `Crashed`

In profile mode there is no group. After `Ready` the process measures by itself. It sends `Trying` before each
local batch size and `Profiled` after it. Then it measures its input, with a `ProfiledInput` after each number of
CPUs, and exits. If memory runs out, another
process replaces it and goes on from its `ProfileProgress`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...core.batch_plan import BatchPlan
from ...core.reports import JobInfo, MeasuredInput, Report, StepRow

# Environment of a training process, set by the worker actor. Without it the script runs by itself.
CHANNEL_FD = "COADAPT_CHANNEL_FD"  # inherited socket for commands and events
MODE = "COADAPT_MODE"  # "train" or "profile"
TRAINING_JSON = "COADAPT_TRAINING"  # TrainingConfig as JSON
CHECKPOINT_URL = "COADAPT_CHECKPOINT_URL"  # this job's checkpoint folder
GPU_TYPE = "COADAPT_GPU_TYPE"
NODE_ID = "COADAPT_NODE_ID"  # Ray's, in hex
DEVICES = "COADAPT_DEVICES"  # its GPUs by position on the node, "0,1"; emulated ones, too
JOB_ID = "COADAPT_JOB_ID"
JOB_LIFE = "COADAPT_JOB_LIFE"
TRACKERS = "COADAPT_TRACKERS"  # names of trackers to which rank 0 hands metrics on, with commas between
STATUS_FILE = "COADAPT_STATUS_FILE"  # where a program without `prepare` says how far it is
OUTPUT_DIR = "COADAPT_OUTPUT_DIR"  # what the script writes there is kept with its checkpoints
PACE_JSON = "COADAPT_PACE"  # {"profile": …, "time_scale": …, "input": …}: only on emulated nodes
NO_ROOM = "COADAPT_NO_ROOM"  # the error of an emulated GPU that has too little memory left; else not set
CACHE_BYTES = "COADAPT_CACHE_BYTES"  # of the node's cache of samples at first; not set where memory is unknown
LOADER_WORKERS = "COADAPT_LOADER_WORKERS"  # of a script's data loader at first; not set where CPUs are unknown
PART_CPUS = "COADAPT_PART_CPUS"  # of the node, of the GPUs that are measured; not set where it is less than one
CORES = "COADAPT_CORES"  # "0,1": of the machine, at first; not set where all may be used
SHARDS = "COADAPT_SHARDS"  # processes of a replica; not set where it is one that sees all of its GPUs
SHARD = "COADAPT_SHARD"  # the place of this process among them
HYPERPARAMETERS = "COADAPT_HYPERPARAMETERS"  # JSON: values of a trial, or a list with those of each trial
TRIALS = "COADAPT_TRIALS"  # `core.trials.Trial`s as JSON, of a group; with values and where each begins
TRIAL_SOURCES = "COADAPT_TRIAL_SOURCES"  # JSON: jobs that trials go on from -> URLs of their checkpoints
UNTIL_EPOCH = "COADAPT_UNTIL_EPOCH"  # after which a group of trials ends; not set where it does not
KEPT_EPOCHS = "COADAPT_KEPT_EPOCHS"  # "3,9": after which the states of its trials are kept for others
SHRINK = "COADAPT_SHRINK"  # by which widths of the model are divided; not set where they are not
PROFILE_JSON = "COADAPT_PROFILE"  # ProfileProgress as JSON: only in profile mode


# --- commands: executor -> training process -------------------------------------------------------------


@dataclass(frozen=True)
class Join:
    """Be `rank` of group `generation`; every member is sent one, survivor or newcomer.

    The new group takes its state from the most advanced live rank. If none is live, it takes the newest valid
    checkpoint, and else rank 0's state.
    """

    generation: int
    rank: int
    world_size: int
    nodes: int
    local_rank: int
    local_world_size: int
    store_host: str
    store_port: int
    batch: BatchPlan | None = None  # None: the session divides the initial batch size


@dataclass(frozen=True)
class Leave:
    """Exit at the control point that starts `generation`, after saving if `save`."""

    generation: int
    save: bool = False


@dataclass(frozen=True)
class SetBatch:
    """Train by another batch plan from the next control point on."""

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
    """Fail every pending collective of group `generation` now: a member is gone.

    A process that still waits to form that group gives it up and answers `Broken(generation)`. If several `Join`s
    wait, the newest counts.
    """

    generation: int


@dataclass(frozen=True)
class Beside:
    """Be so fast on an emulated GPU, over the speed alone there, since a moment of the machine's monotonic clock.

    It comes from the worker, and acts at once.
    """

    speed: float
    since_s: float


@dataclass(frozen=True)
class Provide:
    """Have these CPUs and this memory from the next control point on; nothing restarts.

    cores: of the machine, by number; none: whichever are free. workers: processes of the script's data loader;
    0: as many as it says. cache_bytes: of samples in memory, for all processes of the job on the node; None: as
    before.
    """

    cores: tuple[int, ...] = ()
    workers: int = 0
    cache_bytes: int | None = None


@dataclass(frozen=True)
class Keep:
    """Train only these trials of the group on, by number, from the next control point on.

    with_state: the others' states stay in the checkpoint, so that they can go on elsewhere. They leave at the end
    of the running epoch then.
    """

    trials: tuple[int, ...]
    with_state: bool = False


Command = Join | Leave | SetBatch | Save | Stop | Abort | Beside | Provide | Keep

# --- events: training process -> executor ---------------------------------------------------------------


@dataclass(frozen=True)
class Ready:
    """Report that the script has reached `prepare` and waits for `Join`."""

    fingerprint: str  # model structure and parameter shapes
    initial_batch_size: int  # the script's own total batch size
    parameters: int
    dataset_size: int | None
    optimizer: str  # class name
    adam_type: bool
    has_state: bool = False
    least_local_bsz: int = 1  # samples a replica's batch should have, for statistics over it

    @property
    def info(self) -> JobInfo:
        return JobInfo(
            self.fingerprint,
            self.initial_batch_size,
            self.parameters,
            self.dataset_size,
            self.adam_type,
            least_local_bsz=self.least_local_bsz,
        )


@dataclass(frozen=True)
class Joined:
    """Report that the group has formed and that this process has its state."""

    generation: int
    steps: int
    source: str  # "peer", "checkpoint" or "fresh"


@dataclass(frozen=True)
class Heartbeat:
    """Report progress between two reports."""

    generation: int
    steps: int


@dataclass(frozen=True)
class Paced:
    """Tell how long this process's emulated GPU would have been busy by now, and in the last step; seconds.

    It is for the worker, which does not pass it on.
    """

    busy_s: float
    step_s: float


@dataclass(frozen=True)
class Trying:
    """Name the local batch size that is measured next. If the process dies then, memory ran out at that size."""

    local_bsz: int


@dataclass(frozen=True)
class Profiled:
    """Report one more local batch size measured in profile mode; the last report has `done`.

    `asked_samples`: of the script's epochs or steps together, at the initial batch size; None: not known.
    """

    row: StepRow | None
    done: bool = False
    asked_samples: float | None = None


@dataclass(frozen=True)
class ProfiledInput:
    """Report all that is known of the job's input so far, in profile mode."""

    input: MeasuredInput


@dataclass(frozen=True)
class Saved:
    """Report a checkpoint that was written, and how long that took."""

    path: str
    steps: int
    took_s: float = 0.0


@dataclass(frozen=True)
class Broken:
    """Report that a collective of `generation` failed; the step is undone and the process waits for `Join`."""

    generation: int
    steps: int


@dataclass(frozen=True)
class Left:
    """Report that the process stops as it was asked to; it exits now."""

    steps: int
    saved: str | None = None


@dataclass(frozen=True)
class Finished:
    """Report that the script ended by itself, after its last epoch or at its target metric."""

    steps: int
    target_reached: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    ended_early: str = ""  # how far it was, where it ended by itself before what it had asked for


@dataclass(frozen=True)
class Crashed:
    """Report that the script ended with an error; `summary` is its type and first line."""

    summary: str
    traceback: str
    out_of_memory: bool = False
    unfit: bool = False  # a newcomer could not take over the state of those that train
    storage: bool = False  # the storage of its checkpoints failed, and not the script
    peer_lost: bool = False  # another process of its sharded replica is gone, and not the script failed


Event = (
    Ready
    | Joined
    | Heartbeat
    | Report
    | Paced
    | Trying
    | Profiled
    | ProfiledInput
    | Saved
    | Broken
    | Left
    | Finished
    | Crashed
)
