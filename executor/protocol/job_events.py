"""The events that an `AdaptiveExecutor` sends to the scheduler service, by `service.on_event(job_id, event)`.

An event may arrive twice, since an executor repeats a call whose answer it missed. `sequence` is the highest
`assign` that the executor had seen. `measurements` is a value of `estimators.measurements.Measurements`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...core.batch_plan import BatchPlan
from ...core.reports import Report
from ...core.slot import Slot
from ...core.usage import Usage


@dataclass(frozen=True)
class ProfileFinished:
    """Report the end of a profile run; `Released` of its slot follows.

    `ok`: there are measurements. `sequence` is that of the run. `lost`: its worker was lost with its node.
    `fault`: the script failed in a way that would end training too; `reason` is the error's summary.
    """

    gpu_type: str
    ok: bool
    reason: str = ""
    measurements: Any = None  # with what the run found; None where it found nothing
    lost: bool = False
    sequence: int = 0
    fault: bool = False
    traceback: str = ""


@dataclass(frozen=True)
class Running:
    """Report that the group trains on exactly `slots`; `sequence` is of the last assignment carried out.

    `pause_s` is the time without training since the last group (None at the first start). `warm`: at least one
    process went on. `recovered`: a worker was lost before. `retried`: the script failed before.
    `generation` is the group's, 1 or more; 0 where it is unknown.
    """

    sequence: int
    slots: tuple[Slot, ...]
    warm: bool
    pause_s: float | None = None
    recovered: bool = False
    generation: int = 0
    retried: bool = False


@dataclass(frozen=True)
class Released:
    """Give `slots` back: nothing of this job is left in them.

    `everything`: the executor itself was restarted. It holds no slot and waits for `assign`.
    `saved_step`: of the checkpoint that its process wrote as it left; None: it wrote none.
    """

    sequence: int
    slots: tuple[Slot, ...] = ()
    everything: bool = False
    saved_step: int | None = None


@dataclass(frozen=True)
class Sent:
    """Answer to an event: the highest `assign` and profile run that the service had sent when it took the event.

    An executor that was restarted obeys only later ones: the service counts on it holding nothing of these.
    """

    sequence: int
    profile_sequence: int


NOTHING_SENT = Sent(0, 0)


@dataclass(frozen=True)
class Used:
    """Tell how much a job's GPUs were used since the last such value, by GPU type.

    `executor` names the process of the executor, and `number` counts what it told, from 1. One that is told again
    has the same number. It comes with a report, or as an event of its own.
    """

    executor: str
    number: int
    by_type: Mapping[str, Usage]


@dataclass(frozen=True)
class Reported:
    """Pass on a training report, the measurements with it, and the batch plan in force.

    `left_out` is a sentence if the script reported more metrics than are kept.
    `used`: how much its GPUs were used; None if nothing new is known.
    """

    report: Report
    measurements: Any
    batch: BatchPlan | None = None
    left_out: str = ""
    used: Used | None = None


@dataclass(frozen=True)
class Checkpointed:
    """Report a checkpoint that was written: its steps, and how long that took."""

    steps: int
    took_s: float


@dataclass(frozen=True)
class WorkerLost:
    """Report a worker that died or hung; the executor is already recovering."""

    reason: str
    slot: Slot | None = None


@dataclass(frozen=True)
class GpuNoticed:
    """Report what was found of a GPU of the job, in one sentence, as that its shared state was made anew."""

    text: str


@dataclass(frozen=True)
class CoresHeld:
    """Report which cores processes of the job keep to: node id -> those, and those of the machine.

    Both are lists of `core.cores`. A node where they keep to none is left out.
    """

    by_node: Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Killed:
    """Report processes of a program that were killed because they did not end by themselves."""

    what: str


@dataclass(frozen=True)
class StatusesRefused:
    """Report that statuses of a program were not taken: how many, and why the last one was not.

    `count` is over all its starts since the process `executor` began. What is told again has the same count.
    """

    executor: str
    count: int
    last: str


@dataclass(frozen=True)
class Failing:
    """Report that the script failed and is restarted: try `tries` of `max_failures` + 1."""

    summary: str
    tries: int
    traceback: str = ""


@dataclass(frozen=True)
class JobFinished:
    """Report that the script has ended well.

    `ended_early` says how far it was, as "epoch 7 of 60", if it stopped by itself before its last epoch.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    target_reached: bool = False
    ended_early: str = ""


@dataclass(frozen=True)
class JobFailed:
    """Report that the job is given up, after `tries` failures of its script; `why` says why no try follows."""

    summary: str
    traceback: str
    tries: int
    why: str = ""


@dataclass(frozen=True)
class Standing:
    """Report on which node the executor stands, once it has started."""

    node_id: str


@dataclass(frozen=True)
class AtRest:
    """Report what an executor that holds nothing knows, for the one that is made when the job gets GPUs again.

    `kept`: values of JSON that only an executor reads. It holds for the executor's own life of the job.
    """

    kept: Mapping[str, Any]
    measurements: Any


ExecutorEvent = (
    ProfileFinished
    | Running
    | Released
    | Reported
    | Used
    | Checkpointed
    | WorkerLost
    | GpuNoticed
    | CoresHeld
    | Killed
    | StatusesRefused
    | Failing
    | JobFinished
    | JobFailed
    | Standing
    | AtRest
)
