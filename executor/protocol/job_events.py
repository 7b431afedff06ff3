"""What an `AdaptiveExecutor` tells the scheduler service: `service.on_event(job_id, event)`.

Events are facts; each may be delivered twice (an executor repeats a call whose answer it missed), so the
service treats them as idempotent. `sequence` is the highest `assign` the executor had seen when it spoke.
`measurements` is an `estimators.measurements.Measurements`, sent as a value; this room imports `core` only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...core.batch_plan import BatchPlan
from ...core.reports import Report
from ...core.slot import Slot


@dataclass(frozen=True)
class ProfileFinished:
    """The profile run on a GPU type ended; `Released` of its slot follows. `ok`: there are measurements.

    `sequence` is that of the run. `lost`: its worker was lost with its node, which says nothing about the job.
    `fault`: an error of the script, as it would meet in training too; `reason` is its summary.
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
    """The group trains on exactly `slots`; `sequence` is that of the last assignment that has been carried out.

    `pause_s` is the time without training since the last group (None at the first start); `warm` says that
    at least one process went on. `recovered`: the group was re-formed because a worker was lost; `retried`: it was
    started anew after an error of the script. `generation`: of the group, 1 or more, 0 where it is not known.
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
    """Nothing of this job is left in `slots`.

    `everything`: the executor itself was restarted, holds no slot at all and waits for `assign`.
    """

    sequence: int
    slots: tuple[Slot, ...] = ()
    everything: bool = False


@dataclass(frozen=True)
class Reported:
    """A training report, the measurements including it, and the batch plan now in force.

    `left_out`: one sentence, where the script reported more metrics than are kept.
    """

    report: Report
    measurements: Any
    batch: BatchPlan | None = None
    left_out: str = ""


@dataclass(frozen=True)
class WorkerLost:
    """A worker died or hung without being asked to leave; the executor is already recovering."""

    reason: str
    slot: Slot | None = None


@dataclass(frozen=True)
class Failing:
    """The script failed and is being restarted: try `tries` of `max_failures` + 1."""

    summary: str
    tries: int
    traceback: str = ""


@dataclass(frozen=True)
class JobFinished:
    """The script has ended well. `ended_early`: how far it was, as "epoch 7 of 60", where it did so by itself."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    target_reached: bool = False
    ended_early: str = ""


@dataclass(frozen=True)
class JobFailed:
    """The job is given up. `tries`: how often its script has failed; `why` no other try follows."""

    summary: str
    traceback: str
    tries: int
    why: str = ""


ExecutorEvent = ProfileFinished | Running | Released | Reported | WorkerLost | Failing | JobFinished | JobFailed
