"""Models for jobs that are not measured yet, so that the place that they will take is not left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...estimators.goodput import JobModel
from ...forecasts.state import LiveJob, LiveState, Part, PastJob


def with_stand_ins(state: LiveState, past: Sequence[PastJob]) -> LiveState:
    """Return the state in which each job that waits to be measured has the model of another one."""
    jobs = tuple(job if not _needs_one(job) else replace(job, model=_like(job, state, past)) for job in state.jobs)
    return replace(state, jobs=jobs)


def _needs_one(job: LiveJob) -> bool:
    return job.part is Part.JOB and job.model is None and job.spec.is_measured_first


def _like(job: LiveJob, state: LiveState, past: Sequence[PastJob]) -> JobModel | None:
    """Return the model of the newest job of the same script, else of the same user, else of any."""
    known: list[LiveJob | PastJob] = [*reversed(past), *state.jobs]
    others = [(one.script_key, one.owner, one.model) for one in known if one.model is not None]
    for key, owner, model in others:
        if key and (key, owner) == (job.script_key, job.owner):
            return model
    for _, owner, model in others:
        if owner == job.owner:
            return model
    return others[0][2] if others else None
