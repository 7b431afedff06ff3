"""What an `AdaptiveExecutor` is given and what it answers: plain picklable data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..core.batch_plan import BatchPlan
from ..core.job import RestartPolicy
from ..core.logs import LogFormat
from ..core.reports import Report
from ..core.service_names import NAMESPACE, SERVICE_NAME
from ..core.slot import Slot
from ..core.training_config import TrainingConfig
from ..core.trials import Trial
from .emulated_gpu import UNKNOWN_PROFILE, TenantProfile
from .sandbox.line import NO_LINE, Line

if TYPE_CHECKING:
    from ..estimators.measurements import Measurements


@dataclass(frozen=True)
class ExecutorJob:
    """One job as its executor needs it; everything that decides where it runs comes later, by `assign`."""

    id: str
    script: str  # path inside the working directory, or absolute
    args: tuple[str, ...] = ()
    package: str = ""  # of the working directory, on the head's disk; "": runs in the script's own folder
    folder: str = ""  # names the job's folder on each machine; by default its id
    state_dir: str = ""  # the service's
    env: Mapping[str, str] = field(default_factory=dict)
    pip: tuple[str, ...] = ()
    trackers: tuple[str, ...] = ()  # to which metrics go on
    training: TrainingConfig = field(default_factory=TrainingConfig)
    trials: tuple[Trial, ...] = ()  # settings of its hyper-parameters, which train as one where they are several
    trial_sources: Mapping[str, str] = field(default_factory=dict)  # jobs they go on from -> checkpoint URLs
    until_epoch: int | None = None  # after which the trials end together
    kept_epochs: tuple[int, ...] = ()  # after which the states of trials are kept for others
    shrink: int = 1  # by which widths of its model are divided
    checkpoint_url: str = ""
    outputs_url: str = ""  # "": the script is given no output folder
    log_dir: str = ""  # on the head's disk; "": no log files
    head_node: str = ""  # the node with that disk; "": the executor's own
    pace: Mapping[str, Any] | None = None  # {"profile": …, "time_scale": …, "input": …} for emulated slots
    emulated: TenantProfile = UNKNOWN_PROFILE  # what it uses of emulated GPUs
    gpus_per_replica: Mapping[str, int] = field(default_factory=dict)  # per GPU type the job may use
    sharded: bool = False  # a replica is one process for each of its GPUs
    fewest_replicas: int = 1
    max_failures: int = 3
    restarts: RestartPolicy = RestartPolicy.ON_FAILURE
    measurements: Measurements | None = None  # the service's last copy
    line: Line = NO_LINE  # around its processes
    life: int = 0  # how often the job began again after it had ended
    kept: Mapping[str, Any] = field(default_factory=dict)  # by the executor before this one, when it held nothing
    log_format: LogFormat = LogFormat.TEXT  # of the executor's own log
    service_name: str = SERVICE_NAME
    service_namespace: str = NAMESPACE


@dataclass(frozen=True)
class ExecutorStatus:
    """Show a snapshot of an executor; `state` is the name of one of `reconciling.states`."""

    state: str
    sequence: int  # the highest `assign` seen
    slots: tuple[Slot, ...] = ()  # of every live worker, training or not
    group: tuple[Slot, ...] = ()  # of the group that trains, by rank
    generation: int = 0
    steps: int = 0
    report: Report | None = None
    batch: BatchPlan | None = None
    failures: int = 0
    recoveries: int = 0
    last_error: str = ""
    workers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # id -> slot, stage, rank, pid
