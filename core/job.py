"""A job: what the user wrote (`JobSpec`) and what became of it (`JobState`)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .deadline import Deadline
from .doors import Door, Processes, check, completed, door, processes_of
from .input_profile import InputProfile
from .job_arrays import Array, filled_in, used_in
from .job_relations import After, ResumeFrom, Retry
from .notify import Notify, Tracker
from .phase import Phase
from .rewards import OnMissed
from .span_field import Span
from .teams import Priority, TeamName
from .training_config import Adaptivity, TrainingConfig
from .trials import MOST_TRIALS, Trial, check_numbers
from .wording import n_gpus

Positive = Annotated[int, Field(ge=1, le=1_000_000)]
Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
SecretName = VariableName
LabelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,62}$")]
LabelText = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=255)]
MOST_LABELS = 64
EXPERIMENT = "experiment"  # the label of jobs that belong together, as their lengths are alike
START_CPUS = 1.0  # for each GPU, where the job file does not say how many CPUs
Sizes = Annotated[list[Positive], Field(min_length=1)]

# Variables a job may not set: they say who a training process is.
RESERVED_ENV = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PYTHONHOME"),
    *("NODE_RANK", "NNODES", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR"),
    *("PET_MASTER_PORT", "KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_TOKEN"),
)


class _Strict(BaseModel):
    # A string below a field is its description: in the published schema and in error messages.
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, hide_input_in_errors=True
    )


class ResourceRequest(_Strict):
    """GPUs a job may use. Every count is GPUs, not replicas."""

    min_gpus: Positive = 1
    """Fewest GPUs the job runs with."""
    max_gpus: Positive = 64
    """Most GPUs the job is given."""
    gpus: Positive | None = None
    """The fixed GPU count of a rigid job."""
    gpu_types: Annotated[list[str], Field(min_length=1)] | None = None
    """GPU types the job may run on; by default every type of the cluster."""
    gpus_per_replica: Positive | dict[str, Positive] = 1
    """GPUs of one replica, one number or one per GPU type: more than 1 for a pipeline-parallel job."""
    processes_per_replica: Literal["one", "gpu"] = "one"
    """one: a replica is a process that sees all of its GPUs; gpu: one process for each, as fully_shard needs."""
    cpus_per_gpu: float | None = Field(default=None, ge=0)
    """CPUs the job holds for each GPU; by default the scheduler chooses, from its GPUs' share of the node on."""
    memory_gib_per_gpu: float | None = Field(default=None, ge=0)
    """Main memory the job holds for each GPU, in GiB; by default the scheduler chooses, as for CPUs."""

    @property
    def least_cpus_per_gpu(self) -> float:
        """Return the CPUs without which the job does not start; a node with fewer gives its GPUs' part of them."""
        return START_CPUS if self.cpus_per_gpu is None else self.cpus_per_gpu

    @model_validator(mode="after")
    def _ordered(self) -> ResourceRequest:
        if self.min_gpus > self.max_gpus:
            raise ValueError(f"min_gpus: {self.min_gpus} is more than max_gpus {self.max_gpus}")
        most = self.gpus or self.max_gpus
        per_replica = self.gpus_per_replica
        if isinstance(per_replica, dict):
            if not per_replica:
                raise ValueError("gpus_per_replica: the mapping is empty; give one number or one per GPU type")
            missing = [t for t in self.gpu_types or () if t not in per_replica]
            if missing:
                raise ValueError(f"gpus_per_replica: no number for GPU type {missing[0]} of gpu_types")
            smallest = min(per_replica.values())
        else:
            smallest = per_replica
            if self.gpus is not None and self.gpus % per_replica:
                raise ValueError(f"gpus: {self.gpus} is not a multiple of gpus_per_replica {per_replica}")
        if self.processes_per_replica == "gpu" and per_replica == 1:
            raise ValueError(
                "gpus_per_replica: not given; with processes_per_replica gpu it says over how many GPUs the model "
                "is sharded"
            )
        if smallest > most:
            raise ValueError(f"gpus_per_replica: {smallest} is more than the {n_gpus(most)} the job may have")
        return self


class Reservation(_Strict):
    """GPUs of one type forced into every plan while the job is active (Sia, "Preemption and reservation")."""

    gpu_type: str
    """The GPU type."""
    gpus: Positive
    """How many GPUs."""


class Emulation(_Strict):
    """How fast the job would be, for nodes that are emulated on CPU; a real GPU is never paced."""

    profile: str = "cifar10"
    """Whose speed to take: a model of core/pace_profiles.json."""
    time_scale: float = Field(default=1.0, gt=0)
    """10: ten times faster than the measured GPUs."""
    pause: bool = False
    """Whether a command is stopped for parts of the time, so that GPU types differ as in `profile`."""
    gpu_util: float | None = Field(default=None, ge=0, le=1)
    """Part of the time in which it keeps an emulated GPU busy while alone there, 0 to 1; by default unknown."""
    memory_util: float | None = Field(default=None, ge=0, le=1)
    """Part of the time in which the GPU's memory is read or written, 0 to 1; by default unknown."""
    memory_gib: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Memory of each GPU that it needs, GiB; by default unknown, so that it always has room."""
    input: InputProfile | None = None
    """How long loader workers take for samples; by default as long as they do."""


class ProgressSource(_Strict):
    """Where a program says how far it is, besides `coadapt.report` and the trainer's own status."""

    file: Text | None = None
    """A file of JSON lines in the working folder, such as log.jsonl, or at $COADAPT_OUTPUT_DIR/log.jsonl."""
    pattern: Text | None = None
    """A regular expression for lines of the output, with groups named step, of, epoch, epochs or by a metric."""
    total_steps: Positive | None = None
    """Steps until the end, where the program does not say."""

    @model_validator(mode="after")
    def _has_groups(self) -> ProgressSource:
        if self.pattern is None:
            return self
        try:
            groups = re.compile(self.pattern).groupindex
        except re.error as error:
            raise ValueError(f"pattern: {self.pattern!r} is no regular expression: {error}") from None
        if not groups:
            raise ValueError(f"pattern: {self.pattern!r} has no named group, such as (?P<step>[0-9]+)")
        return self


class RestartPolicy(StrEnum):
    """After what a job is started again by itself."""

    NEVER = "never"  # after nothing: an error or a loss ends it
    ON_LOSS = "on_loss"  # after lost workers, nodes and executors; an error ends it
    ON_FAILURE = "on_failure"  # after errors, too


class JobSpec(_Strict):
    """One training run as its user describes it: the schema of a job file."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
    """Letters, digits, ".", "_" and "-", at most 63; jobs may share a name."""
    script: Text = ""
    """Path of the training script inside working_dir."""
    args: list[Text] = []
    """Arguments of the script."""
    command: list[Text] = []
    """A program with its arguments, started as it is, instead of script."""
    elastic: bool = True
    """false: the program runs unchanged at a fixed size, resources.gpus."""
    sizes: Sizes | dict[str, Sizes] | None = None
    """GPU counts at which the program can be started, one list or one per GPU type; it saves on SIGTERM."""
    processes: Processes | None = None
    """Whether one process starts per GPU or per node; by default by the kind of program."""
    restartable: bool = False
    """Whether a program of a fixed size may be stopped and started again, elsewhere too."""
    grace_s: float = Field(default=30.0, ge=0, le=86_400)
    """Seconds from SIGTERM until a program that goes on is killed."""
    progress: ProgressSource = ProgressSource()
    """Where a program without coadapt.prepare says how far it is."""
    working_dir: str = "."
    """Folder sent to the nodes, relative to the job file."""
    env: dict[str, Text] = {}
    """Environment variables of the script."""
    secrets: list[SecretName] | dict[VariableName, SecretName] = []
    """Secrets of the job's user that its processes get as variables, by name, or as {VARIABLE: NAME}."""
    pip: list[Annotated[str, Field(min_length=1)]] = []
    """Requirements installed on the nodes for this job."""
    resources: ResourceRequest = ResourceRequest()
    """GPUs the job may use."""
    training: TrainingConfig = TrainingConfig()
    """Batch limits, learning-rate rule, checkpoints and reports."""
    pool: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")] | None = None
    """Pool of nodes the job runs in; by default the nodes that belong to no pool."""
    team: TeamName | None = None
    """Team whose share the job uses; by default the first that its user is in."""
    priority: Priority | None = None
    """What the job's progress is worth: low, normal, high or urgent; by default normal."""
    weight: float = Field(default=1.0, ge=0.01, le=1)
    """What the job's progress is worth beside that of others with its priority; 0.5: half as much."""
    labels: Annotated[dict[LabelName, LabelText], Field(max_length=MOST_LABELS)] = {}
    """Words of the user's own, by which jobs are told apart."""
    time_limit: Span | None = None
    """How long the job may hold GPUs to train, in seconds or as in 24h; then it saves and ends."""
    deadline: Deadline | None = None
    """By when the job is to have ended: a span as 6h, an instant, or {worth: {6h: 100, 8h: 40}}."""
    on_missed: OnMissed | None = None
    """What becomes of it once its last deadline has passed: best-effort, which is the default, or cancel."""
    after: After | None = None
    """Jobs that have to end before this one starts: a list of those that have to succeed, or {ok: [], any: []}."""
    resume_from: ResumeFrom | None = None
    """Another job whose checkpoint this one starts from, as JOB or JOB@STEP."""
    array: Array | None = None
    """A grid or a list of values, each of which makes a job: {NAME} in args, command and env stands for one."""
    trials: Annotated[list[Trial], Field(max_length=MOST_TRIALS)] = []
    """Settings of the script's hyper-parameters: one for a job of its own, several train as one on one GPU."""
    until_epoch: Positive | None = None
    """The epoch after which several trials end together; others may go on from their states then."""
    kept_epochs: Annotated[list[Positive], Field(max_length=100)] = []
    """Epochs after which the states of trials that train as one are kept, so that others go on from them."""
    shrink: int = Field(default=1, ge=1, le=1024)
    """The number by which widths of the model are divided; 1: it is as the script makes it."""
    retry: Retry | None = None
    """How the job begins again by itself after it has failed; by default it does not."""
    preemptible: bool = True
    """false: once started, the job keeps its GPUs until it ends."""
    reservation: Reservation | None = None
    """GPUs of one type kept for the job while it is active."""
    restart_policy: RestartPolicy | None = None
    """What the job is started again after; by default on_failure, and on_loss for a program of a fixed size."""
    max_failures: int = Field(default=3, ge=0, le=1000)
    """Errors of the script after which the job fails, the same one twice is enough; lost machines do not count."""
    fingerprint: Annotated[str, Field(min_length=1)] | None = None
    """Jobs with the same fingerprint share profiles; by default derived from the model's structure."""
    profile: bool = True
    """Measure the script on one GPU of each type before the first run; sharded models are measured in training."""
    cold_start_s: float = Field(default=0.0, ge=0, le=86_400)
    """Seconds until it trains at its usual speed, as it loads data first; profilers wait for so much longer."""
    emulation: Emulation = Emulation()
    """How fast the job is on emulated nodes."""
    notify: Notify | None = None
    """Who is told of the job, and of what; by default its user's webhooks, of what they subscribe to."""
    trackers: list[Tracker] = []
    """Experiment trackers to which the metrics of coadapt.report go on, with one run for the whole job."""

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, written: Any) -> Any:
        return completed(written) if isinstance(written, Mapping) else written

    @model_validator(mode="after")
    def _fits_its_door(self) -> JobSpec:
        check(self)
        return self

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

    @model_validator(mode="after")
    def _is_a_group(self) -> JobSpec:
        check_numbers(self.trials)
        if (self.trials or self.shrink > 1) and self.door is not Door.NATIVE:
            field = "trials" if self.trials else "shrink"
            raise ValueError(
                f"{field}: it is for a script that calls coadapt.prepare, and this is a {self.door} job"
            )
        for field in ("until_epoch", "kept_epochs"):
            if getattr(self, field) and not self.is_group:
                raise ValueError(f"{field}: {getattr(self, field)} is for trials that train as one")
        if self.is_group and self.training.target is not None:
            raise ValueError("training.target: one model reaches it, and several trials train as one here")
        if self.is_group and (self.training.adaptivity is not Adaptivity.RIGID or self.most_gpus != 1):
            raise ValueError(
                f"trials: {len(self.trials)} train as one on one GPU; training.adaptivity rigid and "
                "resources.gpus 1 are expected"
            )
        return self

    @model_validator(mode="after")
    def _misses_something(self) -> JobSpec:
        if self.on_missed is not None and self.deadline is None:
            raise ValueError(
                f"on_missed: {self.on_missed} says what follows a deadline, and deadline is not given"
            )
        return self

    @model_validator(mode="after")
    def _environment_is_settable(self) -> JobSpec:
        for name in self.env:
            if not name or "=" in name or "\0" in name:
                raise ValueError(f"env: {name!r} is not a name of an environment variable")
            if name in RESERVED_ENV or name.startswith("COADAPT_"):
                raise ValueError(f"env.{name}: set by coadapt for each worker and cannot be given")
        return self

    @model_validator(mode="after")
    def _array_is_used(self) -> JobSpec:
        if self.array is not None:
            used = used_in(iter([*self.args, *self.command, *self.env.values()]))
            for name in self.array.names:
                if name not in used:
                    raise ValueError(
                        f"array: {{{name}}} stands in no args, command or env, so its values do nothing"
                    )
        return self

    def elements(self) -> list[tuple[dict[str, str], JobSpec]]:
        """Return the values and the job of each element of an array; raises where it is none."""
        assert self.array is not None
        return [
            (
                values,
                self.model_copy(
                    update={
                        "array": None,
                        "args": [filled_in(text, values) for text in self.args],
                        "command": [filled_in(text, values) for text in self.command],
                        "env": {name: filled_in(text, values) for name, text in self.env.items()},
                    }
                ),
            )
            for values in self.array.elements()
        ]

    @model_validator(mode="after")
    def _some_gpus_can_hold_the_batch(self) -> JobSpec:
        """Check that the smallest step does not exceed the largest batch, and that the initial batch fits."""
        training, resources = self.training, self.resources
        first = training.initial_batch_size
        most = training.max_batch_size or first
        fewest = resources.gpus or resources.min_gpus
        per_replica = resources.gpus_per_replica
        widest = max(per_replica.values()) if isinstance(per_replica, dict) else per_replica
        smallest_step = training.min_local_batch_size * -(-fewest // widest)
        if most is not None and smallest_step > most:
            raise ValueError(
                f"training.min_local_batch_size: {training.min_local_batch_size} on {n_gpus(fewest)} makes a step "
                f"of {smallest_step} samples, more than the largest batch size {most}"
            )
        local = training.max_local_batch_size
        if first is None or local is None or training.gradient_accumulation:
            return self
        limits = local if isinstance(local, dict) else dict.fromkeys(resources.gpu_types or ["any type"], local)
        largest_step = max(
            limit * ((resources.gpus or resources.max_gpus) // (self.gpus_per_replica(t) or widest))
            for t, limit in limits.items()
        )
        if largest_step < first:
            raise ValueError(
                f"training.max_local_batch_size: even on all allowed GPUs a step holds {largest_step} samples, "
                f"less than initial_batch_size {first}; allow more GPUs or gradient_accumulation"
            )
        return self

    @model_validator(mode="after")
    def _secrets_are_settable(self) -> JobSpec:
        for name in self.secret_env:
            if name in RESERVED_ENV or name.startswith("COADAPT_"):
                raise ValueError(f"secrets.{name}: set by coadapt for each worker and cannot be given")
            if name in self.env:
                raise ValueError(f"secrets.{name}: env sets this variable, too; give it once")
        return self

    @property
    def secret_env(self) -> Mapping[str, str]:
        """Return the names of secrets by the variables in which processes get them."""
        return self.secrets if isinstance(self.secrets, dict) else {name: name for name in self.secrets}

    @property
    def door(self) -> Door:
        """How the program works with the cluster."""
        return door(self.elastic, self.sizes)

    @property
    def is_group(self) -> bool:
        """Whether several trials train as one, or one that is to be taken from a group or to leave for one."""
        return len(self.trials) > 1 or (bool(self.trials) and self.training.adaptivity is Adaptivity.RIGID)

    @property
    def worth(self) -> float:
        """What the job's progress is worth by its priority and weight; 1 is usual."""
        return (self.priority or Priority.NORMAL).factor * self.weight

    @property
    def restarts(self) -> RestartPolicy:
        """After what it is started again."""
        if self.restart_policy is not None:
            return self.restart_policy
        fixed = self.door is Door.PLAIN and not self.restartable
        return RestartPolicy.ON_LOSS if fixed else RestartPolicy.ON_FAILURE

    @property
    def processes_on_node(self) -> Processes:
        """How many processes of a command start on a node."""
        return processes_of(self)

    @property
    def called(self) -> str:
        """The script, or a command's program, as sentences name it."""
        return self.script or self.command[0]

    def sizes_on(self, gpu_type: str) -> list[int] | None:
        """Return the GPU counts at which the program starts on a type; None: any within its other limits."""
        return self.sizes.get(gpu_type, []) if isinstance(self.sizes, dict) else self.sizes

    def allows(self, gpu_type: str, gpus: int) -> bool:
        """Return whether the job's sizes hold this number of GPUs of a type; without sizes, any number."""
        sizes = self.sizes_on(gpu_type)
        return sizes is None or gpus in sizes

    @property
    def is_sharded(self) -> bool:
        """Whether a replica is one process for each of its GPUs."""
        return self.resources.processes_per_replica == "gpu"

    @property
    def is_measured_first(self) -> bool:
        """Whether a replica is measured before the first run; groups and sharded ones are as they train."""
        return self.profile and not self.is_sharded and not self.is_group

    @property
    def fewest_replicas(self) -> int:
        """Replicas that the job has at least, wherever it runs."""
        per_replica = self.resources.gpus_per_replica
        widest = max(per_replica.values()) if isinstance(per_replica, dict) else per_replica
        return -(-(self.resources.gpus or self.resources.min_gpus) // widest)

    @property
    def most_gpus(self) -> int:
        """Return the GPUs that the job can have at most, which are as many as its ranks."""
        sizes = self.sizes.values() if isinstance(self.sizes, dict) else [self.sizes or []]
        return max((n for some in sizes for n in some), default=self.resources.gpus or self.resources.max_gpus)

    @property
    def asked_gpus(self) -> int:
        """Return the GPUs that the job gets from a policy that chooses none: its fixed count, else the fewest.

        These are whole replicas on each of its GPU types, or else on one, where its limits hold such a count.
        """
        resources, each = self.resources, self.resources.gpus_per_replica
        if isinstance(self.sizes, dict):  # the smallest that most of its types know
            known = Counter(n for sizes in self.sizes.values() for n in set(sizes))
            return min(known, key=lambda gpus: (-known[gpus], gpus))
        least, most = resources.min_gpus, resources.max_gpus
        if resources.gpus is not None or each == 1:
            return resources.gpus or least
        sizes = [each] if isinstance(each, int) else [n for t, n in each.items() if self.gpus_per_replica(t)]
        fitting = [-(-least // n) * n for n in (math.lcm(*sizes), *sorted(sizes))]
        return next((gpus for gpus in fitting if gpus <= most), least)

    def gpus_per_replica(self, gpu_type: str) -> int | None:
        """Return the GPUs of one replica on a GPU type; None where the job cannot run on it."""
        types = self.resources.gpu_types
        if types is not None and gpu_type not in types:
            return None
        per_replica = self.resources.gpus_per_replica
        return per_replica.get(gpu_type) if isinstance(per_replica, dict) else per_replica


@dataclass(frozen=True)
class JobState:
    """What became of a job; changed only by a transaction in the store.

    Times are seconds since the epoch; `queued_s`: when it could first be scheduled. `reason` is one sentence
    for a person. `restarts` counts pauses that were not the script's fault. They are `resizes` while it
    trained, `recoveries` from lost workers, executors and nodes, and returns after `evictions`, in which its GPUs
    went to other jobs. `failures` counts the script's own errors, also while it was measured.
    """

    phase: Phase = Phase.SUBMITTED
    reason: str = ""
    submitted_s: float = 0.0
    queued_s: float | None = None
    started_s: float | None = None
    finished_s: float | None = None
    restarts: int = 0
    resizes: int = 0
    failures: int = 0
    recoveries: int = 0
    evictions: int = 0
