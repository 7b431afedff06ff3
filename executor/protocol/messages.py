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

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...core.batch_plan import BatchPlan
from ...core.reports import JobInfo, Report, StepRow

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
    generation: int
    steps: int
    source: str  # "peer", "checkpoint" or "fresh"


@dataclass(frozen=True)
class Heartbeat:
    generation: int
    steps: int


@dataclass(frozen=True)
class Trying:
    """The local batch size that is measured next: what a process died of that says nothing more."""

    local_bsz: int


@dataclass(frozen=True)
class Profiled:
    """One more local batch size measured in profile mode; the last one has `done`.

    `asked_samples`: of the script's epochs or steps together, at the initial batch size; None: not known.
    """

    row: StepRow | None
    done: bool = False
    asked_samples: float | None = None


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
