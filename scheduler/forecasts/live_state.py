"""From a round and the records of its jobs to the state from which a forecast begins. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import mean
from typing import Any

from ...core.completion import samples_left
from ...core.job import Phase
from ...core.placement import Placement
from ...core.rewards import OnMissed, Rewards
from ...core.settings import Settings
from ...core.teams import Teams
from ...estimators.goodput import JobModel
from ...forecasts.state import LiveJob, LiveState, Part, told_spec
from ...policies.contract.round import JobView
from ..jobs.awaited_jobs import awaited
from ..jobs.due import rewards_of
from ..jobs.record import JobRecord
from ..observers.hooks import RoundDone

LEAST_SEEN_S = 5.0  # that reports must span before they tell a pace
LEAST_LEFT_S = 0.5
LEAST_MEASURING_S = 5.0
MEASURED_IN = (Phase.SUBMITTED, Phase.PROFILING)


def live_state(
    done: RoundDone,
    records: Mapping[str, JobRecord],
    settings: Settings,
    measuring_s: float,
    teams: Teams | None = None,
) -> LiveState:
    """Return the state after a round.

    Args:
        records: of jobs that have not ended, by id.
        teams: that count; they are left out where the round did not go by teams.
        measuring_s: what jobs take from submission until they may train, where they are measured.
    """
    round = done.round
    starts = [job.start_s for job in records.values() if job.start_s is not None]
    start_s = mean(starts) if starts else settings.restart_cost_s
    jobs = [_live_job(view, records.get(view.id), done, start_s) for view in round.jobs]
    there = {job.id for job in jobs}
    jobs += [
        _measured_job(job, round.now, measuring_s)
        for job in records.values()
        if job.phase in MEASURED_IN and job.id not in there and not _held_back(job, records)
    ]
    return LiveState(
        now_s=round.now,
        round=done.number,
        interval_s=round.length,
        early_s=settings.debounce_s,
        policy=settings.policy,
        options=dict(settings.policy_options),
        nodes=(*round.cluster.nodes, *round.asleep),
        jobs=tuple(jobs),
        restart_cost_s=settings.restart_cost_s,
        teams=teams if done.round.sharing is not None else None,
    )


def _held_back(job: JobRecord, records: Mapping[str, JobRecord]) -> bool:
    """Return whether nobody knows when a job takes part: its user holds it, or it waits for other jobs."""
    held = job.paused or job.on_hold or job.cancelled_s is not None or bool(job.quarantine)
    return held or bool(awaited(job, records.get))


def _live_job(view: JobView, job: JobRecord | None, done: RoundDone, start_s: float) -> LiveJob:
    placement = done.plan.placements.get(view.id)
    told = _told(view, placement, as_written=job is not None and view.spec is job.spec)
    if job is None:  # a view of a profile run
        return replace(told, part=Part.PROFILE)
    if job.spec.preemptible and not view.spec.preemptible:
        return replace(told, part=Part.KEPT, owner=job.owner)
    stays = _same(view.placement, placement)
    found = replace(
        told,
        cancelled_s=_cancelled_s(job, view.rewards, view.submitted_s),
        owner=job.owner,
        script_key=job.script_key,
        start_s=job.start_s,
        move_s=job.pause_s,
        pause_s=_pause_s(view, job, placement, done.round.now, job.start_s or start_s),
    )
    if not stays or found.pause_s > 0 or not job.reached:
        return found
    return replace(found, pace=_pace(job), reported_s=job.reached[-1][0])


def _cancelled_s(job: JobRecord, rewards: Rewards | None, submitted_s: float) -> float | None:
    """Return when a job is cancelled that is to end with its last deadline; None: it goes on."""
    if rewards is None or job.spec.on_missed is not OnMissed.CANCEL:
        return None
    return submitted_s + rewards.last_s


def _told(view: JobView, placement: Placement | None, *, as_written: bool) -> LiveJob:
    """Return what the policy was told of a job."""
    known: dict[str, Any] = {}
    if view.expected.known:
        expected = view.expected
        known = {
            "mean_s": expected.mean_s,
            "low_s": expected.low_s,
            "high_s": expected.high_s,
            "source": expected.source,
        }
    return LiveJob(
        id=view.id,
        spec=told_spec(view.spec, as_written=as_written),
        submitted_s=view.submitted_s,
        model=view.model if isinstance(view.model, JobModel) else None,  # what was fitted goes over
        placement=placement,
        progress=view.progress,
        attained_gpu_s=view.attained_gpu_s,
        restarts=view.restarts,
        restart_cost_s=view.restart_cost_s,
        largest_gpus=dict(view.largest_gpus),
        remaining=view.remaining,
        rewards=view.rewards,
        **known,
    )


def _measured_job(job: JobRecord, now: float, measuring_s: float) -> LiveJob:
    """Return a job that does not take part yet, as it is measured first."""
    begins_s = job.state.submitted_s if job.not_before_s is None else max(job.not_before_s, job.state.submitted_s)
    left_s = max(measuring_s + begins_s - now, LEAST_MEASURING_S)
    known: dict[str, Any] = {}
    if job.foretold is not None and (expected := job.foretold.left(0.0)).known:
        known = {
            "mean_s": expected.mean_s,
            "low_s": expected.low_s,
            "high_s": expected.high_s,
            "source": expected.source,
        }
    rewards = rewards_of(job, job.state.submitted_s)
    return LiveJob(
        id=job.id,
        spec=told_spec(job.spec),
        submitted_s=job.state.submitted_s,
        owner=job.owner,
        script_key=job.script_key,
        ready_s=now + left_s,
        rewards=rewards,
        cancelled_s=_cancelled_s(job, rewards, job.state.submitted_s),
        **known,
    )


def _pause_s(view: JobView, job: JobRecord, placement: Placement | None, now: float, start_s: float) -> float:
    """Return the seconds until a job trains on what the plan gives it."""
    if placement is None:
        return 0.0
    if not _same(view.placement, placement):
        if view.placement is None:
            return start_s
        return start_s if job.pause_s is None else job.pause_s
    if job.moving_since_s is None:
        return 0.0
    return max(start_s - (now - job.moving_since_s), LEAST_LEFT_S)


def _same(one: Placement | None, other: Placement | None) -> bool:
    """Return whether two placements are the same GPUs, as far as processes start anew."""
    if one is None or other is None:
        return one is other
    return one.gpu_type == other.gpu_type and dict(one.by_node) == dict(other.by_node)


def _pace(job: JobRecord) -> float | None:
    """Return the samples/s at the initial batch size by the reports on the GPUs that a job has."""
    (first_s, before), (last_s, fraction) = job.reached[0], job.reached[-1]
    progress = float(job.report.get("progress_samples", 0.0))
    left = samples_left(progress, fraction)
    if left is None or fraction >= 1.0 or fraction <= before or last_s - first_s < LEAST_SEEN_S:
        return None
    return (fraction - before) / (1.0 - fraction) * left / (last_s - first_s)


def measuring_s(jobs: Iterable[JobRecord], usual_s: float = 60.0) -> float:
    """Return what jobs took from submission until they were measured; `usual_s`: what it is where none was."""
    took = [
        job.state.queued_s - job.state.submitted_s
        for job in jobs
        if job.state.queued_s is not None and any(run.ok for run in job.profiles)
    ]
    return min(max(mean(took), 5.0), 900.0) if took else usual_s
