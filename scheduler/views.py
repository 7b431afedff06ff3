"""What `Client`'s reading verbs answer and `--json` prints: plain dictionaries with stable fields.

Times ending in `_s` that are moments are seconds since the epoch. A field that is not known yet is None.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class JobRow(TypedDict):
    """One job of `Client.list()`; the last report's figures where it has run."""

    id: str
    name: str
    phase: str  # of `scheduler.job.Phase`
    reason: str
    gpu_type: str | None  # None: holds no GPUs
    gpus: int
    nodes: list[str]
    emulated: bool  # some node it runs on is emulated
    batch_size: int | None
    local_bsz: int | None
    accumulation: int | None
    lr: float | None
    gain: float | None
    epoch: int | None
    epochs: int | None
    fraction: float  # of the epochs asked for, 0..1
    steps: int
    metrics: dict[str, float]
    submitted_s: float
    started_s: float | None
    finished_s: float | None
    restarts: int  # times its training paused: for a resize, a recovery or a cold start
    failures: int
    recoveries: int
    evictions: int


class JobEvent(TypedDict):
    time_s: float
    kind: str  # "submitted", "profiling", "profiled", "placed", "running", "released", "lost", "failing", …
    text: str  # one sentence for a person


class JobDetails(JobRow):
    """`Client.describe(id)`: the row, what the user wrote, and what happened, oldest first."""

    spec: dict[str, Any]
    events: list[JobEvent]
    profiles: dict[str, str]  # GPU type -> how far its profile run is, or why the type cannot be used
    folder: str | None  # its working directory on each machine it runs on; None: it has ended
    outputs: str  # path or URL of what its script wrote to `coadapt.output_dir()`
    traceback: NotRequired[str]  # of a failed job's script


class OutputRow(TypedDict):
    """One of a job's outputs."""

    path: str  # below the output folder
    kind: str  # "file", "link", "folder" (an empty one); "outside" and "special" are left out when fetched
    bytes: int
    modified_s: float | None
    target: str | None  # of a link


class NodeRow(TypedDict):
    id: str
    gpu_type: str
    gpus: int
    free_gpus: int
    cpus: float
    memory_gib: float
    emulated: bool
    jobs: dict[str, int]  # job id -> GPUs held here


class ClusterView(TypedDict):
    """`Client.cluster()`."""

    nodes: list[NodeRow]
    policy: str
    round_interval_s: float
    rounds: int
    prices: dict[str, float]  # of one GPU of each type, in the last round
    solver_s: float | None
    gap: float | None  # the last round's plan is proven within that part of the best; None: nothing is
    notes: list[str]


class Interval(TypedDict):
    """`Client.timeline()`: a job held the same GPUs and batch size from `start_s` to `end_s` (None: still)."""

    job_id: str
    phase: str  # "profiling" or "running"
    start_s: float
    end_s: float | None
    gpu_type: str
    gpus: int
    batch_size: int | None
    lr: float | None
