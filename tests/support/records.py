"""Records of jobs as they stand in the store: builders, and the events of their executors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec, JobState, Phase, ResourceRequest
from coadapt.core.reports import Progress, Report, StepRow
from coadapt.core.slot import Slot
from coadapt.core.training_config import TrainingConfig
from coadapt.estimators.measurements import Measurements
from coadapt.executor.protocol.job_events import ProfileFinished, Reported, Running
from coadapt.scheduler.changes.reactions import Reaction, claim, react, start_profile
from coadapt.scheduler.changes.unmeasured_types import with_new_types
from coadapt.scheduler.jobs.record import JobRecord, ProfileRun

SPEC = JobSpec(name="j", script="t.py", resources=ResourceRequest(max_gpus=8))
A, B, C = (Slot(node, "l", (0,), "t4", emulated=True) for node in ("n1", "n2", "n3"))
P = Slot("n9", "l", (0,), "a100", emulated=True)
CLUSTER = Cluster((Node("n1", "a100", 4), Node("n2", "t4", 8)))

REPORT = Report(
    generation=1,
    gpu_type="t4",
    nodes=1,
    replicas=2,
    rows=(),
    grad_sqr=1.0,
    grad_var=50.0,
    batch_size=64,
    local_bsz=32,
    accumulation=0,
    lr=0.1,
    gain=1.5,
    progress=Progress(2, 10, 0.2, 100, 6400, 5000.0),
    metrics={"accuracy": 0.9},
)


def job(phase: Phase = Phase.QUEUED, **changes: object) -> JobRecord:
    """Return the record of a job submitted at second 0; `changes`: fields of the record."""
    record = JobRecord("j-1", 1, SPEC, JobState(phase=phase, submitted_s=0.0))
    return replace(record, **changes)


def profiling(*runs: ProfileRun) -> JobRecord:
    """Return a job that is being measured."""
    return job(Phase.PROFILING, profiles=runs)


def running(*slots: Slot, **training: Any) -> JobRecord:
    """Return a job that was given these slots at second 1 and trains on them since second 2.

    `training`: fields of its training config.
    """
    spec = SPEC.model_copy(update={"training": TrainingConfig.model_validate(training)})
    claimed = claim(job(spec=spec), slots, 1.0).job
    return react(claimed, Running(claimed.sequence, slots, warm=False), 2.0).job


def reported(found: JobRecord, metrics: dict[str, float], epoch: int = 0) -> Reaction:
    """Return what a report with these metrics makes of a job, `epoch` epochs into its training."""
    progress = replace(REPORT.progress, epoch=epoch)
    return react(found, Reported(replace(REPORT, metrics=metrics, progress=progress), None), 3.0)


def running_and_measured(*slots: Slot) -> JobRecord:
    """Return a job that trains on t4 and is measured on a100, in slot `P`, since second 5."""
    found = with_new_types(replace(running(*slots), measurements=measured("t4")), CLUSTER)
    return start_profile(found, "a100", P, 5.0).job


def measured(*gpu_types: str) -> Measurements:
    """Return one step time on each of these GPU types."""
    found = Measurements()
    for gpu_type in gpu_types:
        found = found.with_rows(gpu_type, [StepRow(1, 1, 8, 0, 0.1, 0.0, 5)])
    return found


def finished(found: JobRecord, gpu_type: str, **outcome: Any) -> ProfileFinished:
    """Return the end of the job's profile run on a GPU type."""
    run = found.profile(gpu_type)
    assert run is not None
    return ProfileFinished(gpu_type, sequence=run.sequence, **outcome)


def counts(found: JobRecord) -> dict[str, int]:
    """Return the job's counts of interruptions that are not 0."""
    names = ("restarts", "resizes", "evictions", "recoveries", "failures")
    return {name: value for name in names if (value := getattr(found.state, name))}


def said(reaction: Reaction) -> list[str]:
    """Return the sentences that a reaction adds to the log."""
    return [event.data["text"] for event in reaction.events]
