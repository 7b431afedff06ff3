"""What `Client`'s reading verbs answer and `--json` prints: plain dictionaries with stable fields.

Times ending in `_s` that are moments are seconds since the epoch. A field that is not known yet is None.

`--json` is valid JSON whatever a script reports: a metric that is no finite number is null there. Elsewhere NaN
and infinities are the texts "NaN", "Infinity" and "-Infinity" (`json_numbers.py`). Python's `float` reads those.
The client's answers hold floats. `client/answers_schema.json` is the JSON schema of these answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, NotRequired

from pydantic import WithJsonSchema
from typing_extensions import TypedDict  # pydantic brings it, and reads no other below Python 3.12

from .deadline_answer import Answer
from .decisions import WaitReason
from .doors import Door
from .events import EventKind, shown_kind
from .job import Phase
from .json_numbers import NOT_FINITE
from .machine_states import MachineState

# Sources of a job's log beside single ones: all ranks, all profile runs.
ALL = "all"
MEASURING = "measuring"


def _one_of(words: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the schema of a word out of a list; each has a line that says what it means."""
    return {"oneOf": [{"const": word, "description": line} for word, line in words]}


_CODES = _one_of((reason.value, reason.line) for reason in WaitReason)
_KINDS = _one_of((shown_kind(kind), kind.line) for kind in EventKind)
# What the schema says of fields that programs read as codes, and of numbers that may be NaN or infinite.
_WaitCode = Annotated[str, WithJsonSchema(_CODES)]
_EventWord = Annotated[str, WithJsonSchema(_KINDS)]
_PhaseWord = Annotated[str, WithJsonSchema({"enum": [phase.value for phase in Phase]})]
_DoorWord = Annotated[str, WithJsonSchema(_one_of((door.value, door.line) for door in Door))]
_DecisionWord = Annotated[str, WithJsonSchema({"enum": ["placed", "waiting", "refused", "ended"]})]
_AnswerWord = Annotated[str, WithJsonSchema(_one_of((answer.value, answer.line) for answer in Answer))]
_StateWord = Annotated[str, WithJsonSchema(_one_of((state.value, state.line) for state in MachineState))]
_Reason = Annotated[str, WithJsonSchema({"anyOf": [_CODES, {"type": "string"}]})]
# A metric of a job; one that is not finite is null in JSON, and stays what it is in Python.
_Metric = Annotated[float, WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "null"}]})]
_Number = Annotated[float, WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": list(NOT_FINITE)}]})]


class MetricPlace(TypedDict):
    """Where in the training a metric was measured."""

    epoch: int  # from 1
    samples: int  # processed by then, of all epochs together


class UsageFigures(TypedDict):
    """What GPUs did for a job, as a mean over the GPUs and the time in which they were looked at."""

    gpu_util: float | None  # part of the time in which a GPU worked, 0..1
    memory_util: float | None  # part of the time in which its memory was read or written, 0..1
    memory_gib: float | None  # GPU memory in use, per GPU


class UsageRow(TypedDict):
    """A job's use of GPUs of one type. A figure that nobody tells is None."""

    mean: UsageFigures  # over all its time
    recent: UsageFigures  # of the last minutes in which it held such GPUs; a minute's age halves the weight
    gpu_s: float  # GPU-seconds that were looked at
    idle_gpu_minutes: float  # minutes x GPUs in which a GPU was used less than 5 %
    emulated: bool  # what an emulated GPU would do at its pace


class Prediction(TypedDict):
    """When a job starts and ends, as worlds simulated from the live state tell; each with a band of 80 %."""

    start_s: float | None  # when it next gets GPUs to train on; None: it has them, or `why_no_start`
    start_low_s: float | None
    start_high_s: float | None
    end_s: float | None  # None: `why_no_end`
    end_low_s: float | None
    end_high_s: float | None
    why_no_start: str  # why nobody knows; "": it is known, or it has GPUs
    why_no_end: str
    predicted_s: float  # of what round, in seconds since 1970
    worlds: int  # how many were simulated


class DeadlineView(TypedDict):
    """Whether a job's deadline will hold. Without a forecast of its end, it is what the policy plans."""

    answer: _AnswerWord  # of `core.deadline_answer.Answer`
    due_s: float  # the deadline that is planned for: the first that is likely to hold, or else the last one
    end_s: float | None  # expected; None: no forecast says it
    end_low_s: float | None
    end_high_s: float | None
    planned_s: float | None  # by when the policy plans it to have ended; None: it does not say
    known_s: float | None  # of `measured_first`, when the answer is likely to come; None: nobody knows
    worth: float  # of ending as expected
    most: float  # of ending by the first deadline
    cancelled: bool  # whether it is cancelled at its last deadline
    gives: NotRequired[list[str]]  # what would have to give for it to hold, a sentence each


class JobRow(TypedDict):
    """One job of `Client.list()`; the last report's figures where it has run."""

    id: str
    name: str
    phase: _PhaseWord  # of `core.job.Phase`
    status: str  # of `scheduler.status.Status`: what a person is told instead
    reason: str
    wait_reason: _WaitCode | None  # why it has no GPUs to train on; None: it has, or has ended
    gpu_type: str | None  # None: holds no GPUs, or is measured on several types
    gpus: int
    share: NotRequired[float]  # the part that it holds of each of these, 1 at most
    beside: NotRequired[list[str]]  # jobs that share some of them
    borrows: NotRequired[bool]  # other teams leave them idle, and get them back
    nodes: list[str]
    emulated: bool  # some node it runs on is emulated
    batch_size: int | None
    local_bsz: int | None
    accumulation: int | None
    lr: _Number | None
    gain: _Number | None
    epoch: int | None
    epochs: int | None
    fraction: float  # of what was asked for, 0..1, as `training.count` counts
    ends_s: float | None  # when these are done at the rate of its last reports; a target may end it sooner
    has_target: bool
    steps: int
    metrics: dict[str, _Metric]  # the last value of each, at most 200
    measured_at: dict[
        str, MetricPlace
    ]  # where in the training each of these was measured, as far as that is known
    submitted_s: float
    started_s: float | None
    finished_s: float | None
    due_s: NotRequired[float | None]  # the first deadline; None: it has none
    deadline: NotRequired[DeadlineView | None]  # whether it will hold; None: it has none, or nothing is known yet
    restarts: int  # times its training paused and went on, but for its script's own errors
    resizes: int  # of these, for other GPUs, or more or fewer of them
    recoveries: int  # from lost workers, executors and nodes
    evictions: int  # times it was stopped, and its GPUs went to other jobs
    usage: dict[str, UsageRow]  # by GPU type; one of which nothing is known is absent
    idle_gpu_minutes: float | None  # minutes x GPUs that it held and used less than 5 %; None: unknown
    failures: int  # errors of the script, also while it was measured
    owner: NotRequired[str]  # whose it is; "": nobody known
    team: NotRequired[str]  # whose share it uses; "": that of none
    priority: NotRequired[str]  # of `core.teams.Priority`
    weight: NotRequired[float]  # what its progress is worth beside others of its priority
    labels: NotRequired[dict[str, str]]
    array: NotRequired[str]  # the id of its array; "": it is of none
    array_index: NotRequired[int]  # its place there, from 0 on
    array_values: NotRequired[dict[str, str]]
    predicted: NotRequired[Prediction | None]  # None: nothing is foretold of it, as of a job that has ended


class WhatIfHold(TypedDict):
    """A job has so many GPUs of a type from a moment on, in the middle one of the worlds; 0: none."""

    start_s: float
    gpu_type: str
    gpus: int


class WhatIfValue(TypedDict):
    """What jobs still take. `units`: their GPU-hours times the prices of the types; None: a type has no price."""

    gpu_hours: dict[str, float]  # by GPU type, with its pool as in a100@lab
    units: _Number | None


class WhatIfJob(TypedDict):
    """A job before and after a change."""

    id: str
    name: str
    owner: str
    team: str  # whose share it uses; "": that of none
    new: bool  # it would be submitted
    before: Prediction | None
    after: Prediction | None
    later_s: float | None  # by how much it ends later in the same world, the median; below 0: sooner
    later_low_s: float | None  # the band of 80 % around it
    later_high_s: float | None
    value_before: WhatIfValue
    value_after: WhatIfValue
    holds_before: list[WhatIfHold]
    holds_after: list[WhatIfHold]


class WhatIfView(TypedDict):
    """`Client.whatif()`: when jobs start and end before and after a change."""

    text: str  # the answer in a sentence
    asked_s: float  # of what round, in seconds since 1970
    round: int
    worlds: int  # how many were simulated, before and after alike
    cpu_s: float
    jobs: list[WhatIfJob]
    delayed: int  # jobs that end noticeably later, others' jobs too
    sooner: int
    prices: dict[str, _Number]  # of a GPU-hour by GPU type as a100@lab, the mean dual of a day; {}: none
    before: WhatIfValue
    after: WhatIfValue
    notes: list[str]


class JobEvent(TypedDict):
    time_s: float
    kind: _EventWord  # of `core.events.EventKind`, as `shown_kind` shows it: "submitted", "placed", "running", …
    text: str  # one sentence for a person


class TargetView(TypedDict):
    """A job's target: the metric, one bound, its last value, and both in a line."""

    metric: str
    at_least: float | None
    at_most: float | None
    value: _Number | None  # None: not reported yet
    reached: bool
    text: str


class RefusedStatuses(TypedDict):
    """What a command said of its progress and was not taken, as a torn line or a status of another job."""

    count: int
    last: str  # why the last one was not, a sentence


class JobDetails(JobRow):
    """`Client.describe(id)`: the row, what the user wrote, and what happened, oldest first."""

    spec: dict[str, Any]
    events: list[JobEvent]
    devices: dict[str, list[int]]  # node id -> its GPUs there by position, those of profile runs included
    profiles: dict[str, str]  # GPU type -> how far its profile run is, or why the type cannot be used
    folder: str | None  # its working directory on each machine it runs on; None: it has ended
    outputs: str  # path or URL of what its script wrote to `coadapt.output_dir()`
    foretold: str | None  # how long it takes with GPUs, by jobs like it, as foretold when it was submitted
    closed: list[str]  # of its nodes that take no new work, a sentence each
    habits: list[str]  # what its script was seen to do that decides how it may be scaled, a sentence each
    refused_statuses: RefusedStatuses | None  # of a command; None: each was taken
    on_hold: NotRequired[bool]  # it starts on no GPUs until it is released
    held_by: NotRequired[str]  # the operator who holds it, and whom it takes to release it; "": its user does
    target: NotRequired[TargetView]  # of a job that has one
    traceback: NotRequired[str]  # of the script's last error, also one that was tried again


class SubmitView(TypedDict):
    """`Client.check` and `check_fork`: what would become of a job if it were submitted, or forked from another."""

    job: str  # its file, or the name of a spec; of a fork without a file, the job it comes from
    name: str | None  # None: the file cannot be read as a job
    door: _DoorWord | None  # of `core.doors.Door`; None as `name`
    cluster: bool  # whether one runs; without one `sizes` is empty
    sizes: dict[str, list[int]]  # GPU type -> how many of them it could have
    refused: list[str]  # why it would not be submitted, a sentence each
    notes: list[str]  # what does not keep it from being submitted
    deadline: NotRequired[DeadlineView | None]  # whether it would hold; None: it has none, or nobody can tell


class ForkView(TypedDict):
    """What the service knows of a fork before it is submitted; `Client.check_fork` adds it to a `SubmitView`."""

    steps: int | None  # of the checkpoint it would start from; None: of none
    refused: list[str]
    notes: list[str]


class OutputRow(TypedDict):
    """One of a job's outputs."""

    path: str  # below the output folder
    kind: str  # "file", "link", "folder" (an empty one); "outside" and "special" are left out when fetched
    bytes: int
    modified_s: float | None
    target: str | None  # of a link


class DeviceRow(TypedDict):
    """One GPU of a node."""

    index: int  # by position on the node, from 0
    free: float  # the share of it that nobody holds
    tenants: dict[str, float]  # job id -> share held


class NodeRow(TypedDict):
    id: str
    machine: str  # its name, which survives a reboot
    gpu_type: str
    pool: str  # "": it belongs to none
    gpus: int
    free_gpus: int  # that nobody is on
    cpus: float
    free_cpus: float | None  # None: the node states none
    cores: dict[str, str]  # job id -> cores that its processes keep to, as "0-3,8"
    free_cores: str  # that nobody keeps to; "": all are kept to, or nobody has told which there are
    memory_gib: float
    free_memory_gib: float | None  # None: the node states none
    emulated: bool
    closed: str  # why it takes no new work, a clause; "": it takes some
    leaves: bool  # whether what runs there has to leave
    deadline_s: float | None  # by when
    jobs: dict[str, int]  # job id -> GPUs held here
    devices: list[DeviceRow]


class MachineRow(TypedDict):
    """One machine of `Client.machines()`, whose node may be powered off."""

    machine: str  # its name, which survives a reboot
    node: str | None  # id of its node; None: it is not there
    state: _StateWord  # of `core.machine_states.MachineState`
    since_s: float | None  # when this state began; None: it was never powered off
    until_s: float | None  # until when nobody is likely to need it, as foreseen when it fell asleep
    keep: bool  # `coadapt node keep`: it is never powered off
    reason: str  # why it is in this state, a sentence; empty: nothing was done to it
    closed: str  # why its node takes no new work, a clause; "": it takes some
    leaves: bool  # whether what runs there has to leave
    deadline_s: float | None  # by when
    gpu_type: str
    pool: str  # "": it belongs to none
    gpus: int
    cpus: float
    memory_gib: float
    emulated: bool


class WindowRow(TypedDict):
    """One maintenance window of `Client.windows()`; its moments are by the wall clock."""

    id: str
    nodes: list[str]  # machines by name
    gpu_type: str  # "": none; else all nodes of this type
    begins_s: float
    ends_s: float
    lead_s: float  # before its begin, in which jobs leave the nodes
    who: str  # who has set it; "": not told
    why: str


class OrderView(TypedDict):
    """What an order for a node has done."""

    changed: bool
    told: str  # one sentence for a person


class PhaseRow(TypedDict):
    """How long one phase of a round took, of the last 100 rounds at most."""

    last_s: float  # in the last round
    median_s: float
    most_s: float
    rounds: int


class NodeTypeRow(TypedDict):
    """Nodes of one type that can be bought."""

    type: str
    gpu_type: str
    gpus: int
    spot: bool
    price_per_h: float  # dollars of one node
    here: int  # also those that leave
    asked: int  # asked for, and not there yet
    leaving: int
    min: int
    max: int
    notices_per_h: float  # of its cloud, for one node
    value: float | None  # of one more node in the last round; None: it was not asked
    value_per_dollar: float | None
    left_out: str  # why none is asked for in a while; "": it may be


class NodeRequestRow(TypedDict):
    """One node that Ray's autoscaler was asked for."""

    type: str
    since_s: float
    reason: str


class ScalingView(TypedDict):
    """What nodes are bought and given up, and what they cost, in dollars."""

    mode: Literal["act", "dry_run"]
    budget_per_h: float
    cost_per_h: float  # of nodes that are there or asked for
    spent: float  # since the first start with these settings
    numbered: int  # nodes that were ever asked for
    unmet: int  # of them, those that did not come in time
    types: list[NodeTypeRow]
    requests: list[NodeRequestRow]
    lines: list[str]  # sentences for a person


class ClusterView(TypedDict):
    """`Client.cluster()`."""

    nodes: list[NodeRow]
    asleep: list[MachineRow]  # machines that are powered off, about to be or on their way back, or have failed
    saved_kwh: float | None  # by machines that slept, from configured watts; None: there are none
    scaling: ScalingView | None  # None: no nodes are bought
    policy: str
    round_interval_s: float
    rounds: int
    phases: dict[str, PhaseRow]  # by phase of the cycle, in its order; empty before the first round
    prices: dict[str, _Number]  # of one GPU of each type, in the last round
    solver_s: float | None
    gap: float | None  # the last round's plan is proven within that part of the best; None: nothing is
    notes: list[str]
    events: list[JobEvent]  # of the cluster, as errors of rounds and models learned anew; the newest ten


class HealthView(TypedDict):
    """`Client.health()`: how the service is."""

    tick_age_s: float  # since it last looked after jobs
    round_age_s: float | None  # since its last round; None: there was none yet
    degraded_since_s: float | None  # since when nothing can be stored; None: all is well
    degraded: str | None  # why
    trouble: str  # what its last tick raised; "": nothing
    notes: list[str]  # sentences on these for a person


class ExplainView(TypedDict):
    """`Client.explain(id)`: why a job has what it has. Policies add facts of their own beside these fields."""

    job_id: str
    lines: list[str]  # sentences for a person
    decision: NotRequired[_DecisionWord]  # "placed", "waiting" or "refused"; "ended" of a job that has
    reason: NotRequired[_Reason | None]  # why it waits; refused: a sentence; ended: its phase
    name: NotRequired[str]
    before: NotRequired[str | None]  # what it held at the start of the round, as "4xa100"
    chosen: NotRequired[str | None]  # what it gets


class TimelineRow(TypedDict):
    """`Client.timeline()`: a job held the same GPUs and batch size from `start_s` to `end_s` (None: still)."""

    job_id: str
    phase: str  # "profiling" or "running"
    start_s: float
    end_s: float | None
    gpu_type: str
    gpus: int
    batch_size: int | None
    lr: _Number | None


class BackupView(TypedDict):
    """A backup of the job store that was written."""

    path: str  # on the machine of the service, or where it was asked for
    bytes: int
    jobs: int


class MetricPoint(TypedDict):
    """A metric when it was measured; null stands for a value that was not finite, and for what is not known."""

    at_s: float
    value: float | None
    epoch: int | None  # from 1
    samples: int | None  # processed by then


class MetricsView(TypedDict):
    """The history of a job's metrics: at most 1,000 points of each, oldest first.

    `training`: `goodput` (progress at the initial batch size, samples/s), `batch_size`, `lr`, `noise_scale` (of
    the gradient, in samples) and `step_s` (seconds of an optimizer step), as far as they are known.
    """

    id: str
    metrics: dict[str, list[MetricPoint]]
    training: NotRequired[dict[str, list[MetricPoint]]]  # an earlier version tells none


class PrunedRow(TypedDict):
    """What retention removes of one kind."""

    kind: str
    count: int
    bytes: int  # about


class SettingRow(TypedDict):
    """One setting of the scheduler."""

    name: str
    value: Any
    default: Any
    changed: bool  # since it was typed, by `coadapt settings set`
    fixed: str  # why it cannot change while the scheduler runs; "": it can


class AuditView(TypedDict):
    """A row of the audit log: a change that somebody asked for, or tried."""

    number: int
    time_s: float
    user: str  # "": nobody known
    role: str
    origin: str  # the address that it came from
    request: str  # the id of the request
    verb: str  # such as "job.cancel"
    target: str  # of what
    outcome: str  # "done", or why not
    detail: dict[str, Any]  # "before" and "after", as far as they differ
    previous: str  # the hash of the row before
    hash: str  # of this row with that


class AuditPage(TypedDict):
    """A page of the audit log. `next`: the cursor of the next page; `head`: number and hash of the newest row."""

    items: list[AuditView]
    next: str | None
    head: tuple[int, str] | None


class RoundChange(TypedDict):
    """What a round decided anew on a job: GPUs as "4xa100"; "" for none."""

    job: str
    before: str
    after: str


class OptionRow(TypedDict):
    """GPUs that a job could have had in a round: the best nodes for one type and count."""

    gpu_type: str
    gpus: int
    nodes: int
    gain: float  # what they add to the objective over leaving the job out
    cost: float  # what they were worth to other jobs
    chosen: bool


class OptionsView(TypedDict):
    """What a job could have had in a round. Options that hardly change are kept once for several rounds."""

    round: int | None  # None: there was none yet
    time_s: float | None
    of_round: int | None  # of which these options were kept; None: of no round near it
    prices: dict[str, float]  # of one GPU of each type, in the round itself
    options: list[OptionRow]


class ResizeRow(TypedDict):
    """A round gave a job other GPUs, or none."""

    time_s: float
    before: str | None  # as "4xa100"; "": nothing; None: not known
    text: str
    gpus: int  # that it is to have
    because: list[str]  # clauses; empty: not known
    round_s: float | None  # when the round was


class PricesView(TypedDict):
    """The price of a GPU of each type over time."""

    since_s: float
    until_s: float
    prices: dict[str, list[tuple[float, float]]]  # moment and price, oldest first


class RoundRow(TypedDict):
    """What one round decided. Of each kind at most 100 jobs are named."""

    number: int  # never given twice
    time_s: float
    round: int | None  # since the service began; None: it was not planned
    seconds: float
    phases: dict[str, float]  # seconds by phase
    jobs: int | None  # that took part
    counts: dict[str, int]  # of jobs that were placed, moved, stopped, measured, and that wait
    placed: list[RoundChange]
    moved: list[RoundChange]
    stopped: list[RoundChange]
    measured: list[RoundChange]
    waiting: dict[str, int]  # the oldest 200 of those by the code of their reason
    objective: float | None
    bound: float | None
    gap: float | None
    prices: NotRequired[dict[str, float]]  # of one GPU of each type
    moves_cost_gpu_s: NotRequired[float]  # for which moved jobs pause
    gained: NotRequired[float | None]  # by the changes, in units of the objective, restarts included
    errors: list[str]
    notes: NotRequired[list[str]]


class RoundsPage(TypedDict):
    """A page of rounds, newest first. `next`: the cursor of the page after it."""

    items: list[RoundRow]
    next: str | None


class WebhookRow(TypedDict):
    """A webhook. Figures are since the service began."""

    name: str
    url: str  # as far as it tells nobody how to post there
    events: list[str]
    by_job: bool  # the URL stood in a job file, and goes with the job
    created_s: float
    waiting: int  # events that are on their way
    sent: int
    failed: int  # tries in vain
    given_up: int
    last_s: float | None  # of the last try, since 1970
    problem: str  # of the last try; "": it was acknowledged


class SecretRow(TypedDict):
    """One of a user's secrets. What it holds is shown nowhere."""

    name: str
    created_s: float
    changed_s: float
    problem: str  # why it cannot be used; "": it can


class UsageSum(TypedDict):
    """A row of `Client.usage()`: GPU-hours, and value units of all but idle ones.

    Idle hours are part of those in which jobs trained.
    """

    team: NotRequired[str]
    user: NotRequired[str]
    type: NotRequired[str]  # the GPU type, with its pool as in a100@lab
    value_units: float
    trained_h: float
    profiled_h: float
    started_h: float  # processes started
    idle_h: float  # held in minutes in which a GPU was used less than 5 %
    lost_h: float  # jobs stood still that had trained: they restarted, moved or left


class TeamsView(TypedDict):
    """`Client.teams()`: the file of teams that counts, with all its defaults."""

    teams: dict[str, dict[str, Any]]  # by name, the fields of `core.teams.Team`; of others' teams no users
    lease_s: float
    half_life_h: float
    prices: dict[str, float]
    user_limits: dict[str, Any]
    version: str  # differs where anything differs
    now: dict[str, TeamNow]  # by name, what each team has


class TeamNow(TypedDict):
    """What a team has now."""

    gpus: dict[str, int]  # by GPU type, with its pool as in a100@lab
    borrowed: dict[str, int]  # of these, beyond its guarantee or of jobs that borrow
    lent: dict[str, int]  # GPUs of its guarantee that it leaves idle and others have
    running: int  # jobs that hold GPUs
    waiting: int  # jobs that wait for some; of others' teams 0
    users: dict[str, dict[str, int]]  # GPUs by user and GPU type; of others' teams none


class TeamsChange(TypedDict):
    """`Client.check_teams` and `apply_teams`: what a file of teams changes, a line each."""

    changes: list[str]
    notes: list[str]  # what becomes of jobs
    refused: list[str]  # why it is not applied
    version: str  # of the teams that count
