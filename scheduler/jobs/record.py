"""The record of one job: a frozen value that is written whole. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any

from ...core.deadline_answer import Answer
from ...core.job import JobSpec, JobState, Phase
from ...core.placement import NodeShare, Placement
from ...core.reports import MeasuredAt
from ...core.slot import Slot
from ...core.usage import UsageOn
from ...estimators.curves.curve import NO_CURVE, MetricCurve
from ...estimators.foretold import Foretold
from ...estimators.measurements import Measurements


@dataclass(frozen=True)
class ProfileRun:
    """One profile run of a job: where it is, or how it ended.

    slot: where its worker may live; None before it is started and after it is released.
    started_s: None before it is started.
    ok: whether it measured something; None before it has ended.
    sequence: the number of the command that started it, of the job's `profile_sequence`.
    """

    gpu_type: str
    slot: Slot | None = None
    started_s: float | None = None
    ok: bool | None = None
    reason: str = ""
    sequence: int = 0
    tries: int = 0  # runs that ended
    losses: int = 0  # runs whose worker was lost
    ended_s: float | None = None  # when it ended and its release began to be awaited
    asked: int = 0  # times it was asked again to leave its slot
    fault: str = ""  # the script's last error here, as `executor.reconciling.failures.fault_of` names it

    @property
    def active(self) -> bool:
        return self.started_s is not None and self.ok is None

    @property
    def startable(self) -> bool:
        """Whether it is still to be measured, and nothing is left of an earlier try."""
        return self.ok is None and self.started_s is None and self.slot is None


class DeadlineNews(StrEnum):
    """What the log of a job has told of its deadline; the values are stored."""

    NOTHING = ""
    NOT_SERVED = "not_served"  # the policy looks at none
    MISSED = "missed"


class Stopped(StrEnum):
    """Why a job was told to leave all its GPUs."""

    EVICTED = "evicted"  # other jobs get them
    DRAINED = "drained"  # their nodes are going away
    DOWN = "down"  # the scheduler ends
    PAUSED = "paused"  # its user holds it
    REQUEUED = "requeued"  # its user has it wait again


@dataclass(frozen=True)
class Origin:
    """The checkpoint of another job from which a job starts.

    checkpoint: its file name without an ending, in the folder `url`.
    copied: whether it is in the job's own folder.
    """

    job_id: str
    steps: int
    checkpoint: str
    url: str
    copied: bool = False


@dataclass(frozen=True)
class TrialSource:
    """A job from whose states trials of a group go on.

    url: of its checkpoints.
    copied: whether they are in the group's own folder; None: its process reads them at `url`.
    """

    job_id: str
    url: str
    copied: bool | None = None

    def url_for(self, own: str) -> str:
        """Return where a group reads them that has checkpoints of its own below the URL `own`."""
        return self.url if self.copied is None else f"{own.rstrip('/')}/from/{self.job_id}"


@dataclass(frozen=True)
class LeaveNotice:
    """What a job was told of a node that goes away while it is there.

    machine: the node's name.
    deadline_s: when it goes.
    told_s: when the job was told.
    left: whether the job was told to save and leave all its GPUs.
    late: whether it was told that the deadline has passed.
    """

    machine: str
    deadline_s: float
    told_s: float
    left: bool = False
    late: bool = False


@dataclass(frozen=True)
class Refusals:
    """Statuses of a job's program that were not taken: how many, and why the last one was not.

    told: which process of the executor told of them last, and how many it had told by then.
    """

    count: int = 0
    last: str = ""
    told: tuple[str, int] = ("", 0)

    def with_more(self, executor: str, count: int, last: str) -> Refusals:
        """Return it with what an executor tells, which may come twice."""
        known = self.told[1] if self.told[0] == executor else 0
        return self if count <= known else Refusals(self.count + count - known, last, (executor, count))


@dataclass(frozen=True)
class ChangedFile:
    """A job file that counts from a job's next life on, as its last one may still leave its GPUs."""

    spec: JobSpec
    package: str | None
    script_key: str


@dataclass(frozen=True)
class JobRecord:
    """A job as stored.

    target: slots of the last `assign`.
    held: slots in which workers of the job may live, a superset of `target`. Profile runs are not included.
    group: slots that train, as the executor last said.
    sequence: number of the last command to train.
    profile_sequence: number of the last command to measure.
    pending_since_s: since when a release has been awaited; None if none is.
    stopped: why the job was told to leave all its GPUs, until it trains again; None if it was not.
    paused: whether its user holds it: it takes part in no round.
    life: how often it began again after it had ended; each life has an executor of its own.
    renews: it begins a new life when the executor of the last one has left its GPUs.
    asked: the key of the last verb, which may come twice.
    origin: what it starts from; None for the start of its script.
    trial_sources: the jobs from whose states its trials go on.
    changed: what counts from its next life on; None: nothing else.
    owner: who submitted it; "": not told.
    idle_since_s: since when its executor holds nothing; None: it holds something, or there is none.
    executor_node: where its executor stands, as that has said; "": nowhere, or it has not said so yet.
    kept: what the last executor knew when it held nothing, for the next one.
    foretold: how long it takes, as it was foretold at its submission; None: no service foretells.
    saved_steps: steps of its newest checkpoint, as its executor has told; None: not told yet.
    saving_s: how long that took to write.
    notice: of a node that goes away; None: there is none.
    quarantine: why it takes part in no round and keeps what it has; "": it takes part.
    cancelled_s: since when it saves and leaves its GPUs, as its user has cancelled it; None: it does not.
    on_hold, held_by: it starts on no GPUs, and keeps what it has; which operator wants so, "": its user.
    ran_s, runs_since_s: how long it trained before it last began to, and since when it does; None: it does not.
    told_limit_s: the time limit of whose end its log has told.
    told_deadline: what its log has told of its deadline.
    borrows: whether it runs on GPUs that other teams leave idle, as the last plan said.
    answer: whether that will hold, as its log has told last; None: it has told nothing yet.
    ending: why it saves and ends; "": its user has cancelled it.
    retries, not_before_s: how often it began again by itself, and before when it does not start.
    array, array_index, array_values: the id of its array, its place there from 0 on, and its values; "": of none.
    bumped: when its user had it come first among own jobs; 0: never.
    cores: by node, those that its processes keep to and those of the machine, as lists of `core.cores`.
    saved_step: of the checkpoint that it wrote when it last left its GPUs; None: it has not told one.
    curve: of the metric that its target names, by samples at the initial batch size.
    beyond: what a later version stored of it.
    """

    id: str
    number: int
    spec: JobSpec
    state: JobState
    package: str | None = None
    script_key: str = ""
    sequence: int = 0
    profile_sequence: int = 0
    target: tuple[Slot, ...] = ()
    held: tuple[Slot, ...] = ()
    group: tuple[Slot, ...] = ()
    pending_since_s: float | None = None
    profiles: tuple[ProfileRun, ...] = ()
    measurements: Measurements | None = None
    fingerprint: str = ""
    largest_gpus: dict[str, int] = field(default_factory=dict)
    pauses: int = 0
    lost_s: float = 0.0  # over all pauses: without training, or with new GPUs whose processes were starting
    pending_commands: tuple[tuple[int, float], ...] = ()  # (sequence, moment) of those that gave GPUs, until done
    last_grant: tuple[tuple[int, Slot], ...] = ()  # (sequence, slot) of the last command with it, until answered
    starts: int = 0  # times that processes started on newly given GPUs
    starting_s: float = 0.0  # over all starts: from the command until the job trained on them
    moves: int = 0  # to other GPUs, or to more or fewer of them
    moving_s: float = 0.0  # over all moves: without training
    generation: int = 0  # of the last group that the executor told of; a new executor counts from 1 again
    report: dict[str, Any] = field(default_factory=dict)  # the newest report, flattened for people
    reached: tuple[tuple[float, float], ...] = ()  # (moment, fraction done) on the GPUs it has now
    metrics: dict[str, float] = field(default_factory=dict)
    measured_at: dict[str, MeasuredAt] = field(default_factory=dict)  # where in the training, by metric
    curve: MetricCurve = NO_CURVE
    left_out: str = ""  # one sentence on metrics that are not kept
    usage: dict[str, UsageOn] = field(default_factory=dict)  # of GPUs, by GPU type, as far as it is known
    usage_told: tuple[str, int] = ("", 0)  # which executor told of it last, and the number of what it told
    told_idle: bool = False  # its owner was told that its GPUs are idle
    refusals: Refusals = Refusals()  # of statuses that its program wrote
    traceback: str = ""  # of the script's last error
    stopped: Stopped | None = None
    retrying: bool = False  # the script failed and is started again
    faults: int = 0  # errors of the script while it was measured
    ended_early: str = ""  # how far the script was when it ended by itself before all was done
    machines: tuple[str, ...] = ()  # addresses where it has run; its folders there are removed at its end
    retired: bool = False  # ended, and its executor is gone
    paused: bool = False
    life: int = 0
    renews: bool = False
    asked: str = ""
    origin: Origin | None = None
    trial_sources: tuple[TrialSource, ...] = ()
    changed: ChangedFile | None = None
    owner: str = ""
    idle_since_s: float | None = None
    executor_node: str = ""
    kept: dict[str, Any] = field(default_factory=dict)
    foretold: Foretold | None = None
    saved_steps: int | None = None
    saving_s: float | None = None
    notice: LeaveNotice | None = None
    quarantine: str = ""
    cancelled_s: float | None = None
    saved_step: int | None = None
    bumped: float = 0.0
    on_hold: bool = False
    held_by: str = ""
    ran_s: float = 0.0
    runs_since_s: float | None = None
    told_limit_s: float | None = None
    told_deadline: DeadlineNews = DeadlineNews.NOTHING
    answer: Answer | None = None
    borrows: bool = False
    ending: str = ""
    array: str = ""
    array_index: int = 0
    array_values: Mapping[str, str] = field(default_factory=dict)
    retries: int = 0
    not_before_s: float | None = None
    cores: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    beyond: Mapping[str, Any] = field(default_factory=dict)

    @property
    def held_text(self) -> str:
        """Return who holds it, where it is on hold."""
        return f"held by the operator {self.held_by}" if self.held_by else "held by the user"

    def begun_again(self) -> JobRecord:
        """Return the job at the beginning of its next life, by its changed file if it has one."""
        file = self.changed or ChangedFile(self.spec, self.package, self.script_key)
        return replace(
            self,
            spec=file.spec,
            package=file.package,
            script_key=file.script_key,
            held=(),
            pending_since_s=None,
            stopped=None,
            retired=False,
            renews=False,
            life=self.life + 1,
            executor_node="",
            saved_steps=None,
            notice=None,
            kept={},
            changed=None,
        )

    @property
    def folder(self) -> str:
        """The name of its folder on each machine. It is more than the id, which begins anew with every store."""
        told = f"{self.package} {self.state.submitted_s!r}{f' {self.life}' if self.life else ''}".encode()
        return f"{self.id}-{hashlib.sha256(told).hexdigest()[:8]}"

    @property
    def phase(self) -> Phase:
        return self.state.phase

    @property
    def active(self) -> bool:
        return not self.state.phase.is_terminal

    @property
    def occupied(self) -> tuple[Slot, ...]:
        """Every slot in which something of the job may live, profile runs included."""
        return (*self.held, *self.measured_in)

    @cached_property
    def has_slots(self) -> bool:
        """Whether it may run in some slot, shall do so, or is measured in one."""
        return bool(self.held or self.target or self.measured_in)

    @cached_property
    def measured_in(self) -> tuple[Slot, ...]:
        """Slots of its profile runs."""
        return tuple(run.slot for run in self.profiles if run.slot is not None)

    @cached_property
    def placement(self) -> Placement | None:
        """What the job shall have; None for nothing. Equal targets give the same object."""
        return placement_of(self.target)

    @property
    def restart_cost_s(self) -> float | None:
        """Mean measured cost of this job's restarts; None before the first."""
        return self.lost_s / self.pauses if self.pauses else None

    @property
    def moving_since_s(self) -> float | None:
        """When the job was given GPUs that it does not train on yet; None if there are none."""
        return self.pending_commands[-1][1] if self.pending_commands and self.target else None

    @property
    def start_s(self) -> float | None:
        """Mean measured time from being given GPUs to training on them; None before the first."""
        return self.starting_s / self.starts if self.starts else None

    @property
    def pause_s(self) -> float | None:
        """Mean measured time that a move takes from training; None before the first."""
        return self.moving_s / self.moves if self.moves else None

    def profile(self, gpu_type: str) -> ProfileRun | None:
        return next((run for run in self.profiles if run.gpu_type == gpu_type), None)


def placement_of(slots: tuple[Slot, ...]) -> Placement | None:
    """Return the placement that slots realise; None for no slots. Equal slots and amounts give the same object."""
    if not slots:
        return None
    return _placement_of(slots, tuple((slot.cpus, slot.memory_gib, slot.share) for slot in slots))


@lru_cache(maxsize=65_536)
def _placement_of(slots: tuple[Slot, ...], amounts: tuple[tuple[float, float, float], ...]) -> Placement:
    """Return the placement of some slots. Their amounts, which are no part of what a slot is, tell them apart."""
    nodes: dict[str, list[Slot]] = {}
    for slot in slots:
        nodes.setdefault(slot.node_id, []).append(slot)
    return Placement(
        slots[0].gpu_type,
        tuple(
            NodeShare(
                node_id,
                sum(slot.gpus for slot in here),
                sum(slot.cpus for slot in here),
                sum(slot.memory_gib for slot in here),
                here[0].share,
                tuple(sorted(device for slot in here for device in slot.devices)),
            )
            for node_id, here in nodes.items()
        ),
    )
