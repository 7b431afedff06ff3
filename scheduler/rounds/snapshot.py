"""From records to the `Round` a policy decides on. Pure but for the store's clocked sums.

A job that is being profiled takes part as one small job per GPU type still to be measured. The policy places
this work like any other, on exactly one replica; a reservation makes room for it in a full cluster. A queued or
running job also takes part as itself; the policy may use a type for it once its profile is there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.cluster import Cluster
from ...core.completion import samples_left
from ...core.expected import UNKNOWN, Expected, ExpectedSource
from ...core.job import JobSpec, Phase, Reservation
from ...core.rewards import Rewards
from ...core.settings import Settings
from ...core.sleeping import SleepingNode
from ...core.teams import kind_of
from ...core.training_config import Adaptivity
from ...core.usage import UsageOn
from ...estimators.goodput import JobModel
from ...estimators.run_lengths import RunLengths
from ...estimators.sensitivity.of_input import sensitivity_by
from ...policies.contract.arrivals import Arrivals
from ...policies.contract.foresight import Foresight
from ...policies.contract.round import JobView, Round
from ...policies.contract.sharing import Sharing
from ..jobs.due import rewards_of
from ..jobs.fitting_types import allowed_types, runs_somewhere
from ..jobs.record import JobRecord, ProfileRun, placement_of
from ..jobs.sleeping_nodes import waited_for
from ..store.store import Store
from .expectations import NO_LENGTHS, expectations
from .limited_specs import limited_spec
from .node_parts import with_least
from .profile_work import ProfileWork

START_S = 900.0  # longest that processes may rightly take to start
# A profile run takes less than 20 GPU-seconds on average (Sia, section 3.3.2), and some to start. So it is among
# the first where short work comes first: a newcomer is measured before it has a place of its own.
PROFILE_RUN = Expected(20.0, 5.0, 60.0, ExpectedSource.ASSUMED)
MEASURED_IN = (Phase.PROFILING, Phase.QUEUED, Phase.RUNNING)  # phases in which profile runs take part
TRAINED_IN = (Phase.QUEUED, Phase.RUNNING)  # phases in which a job takes part as itself


@dataclass(frozen=True)
class Snapshot:
    """What a round decides on, and which of its jobs are profile runs."""

    round: Round
    work: Mapping[str, ProfileWork]  # id of a view -> the profile run it stands for


def profile_spec(spec: JobSpec, gpu_type: str, reserve: bool) -> JobSpec:
    """Return the spec of a profile run: one replica on one GPU type."""
    gpus = spec.gpus_per_replica(gpu_type) or 1
    resources = spec.resources.model_copy(
        update={"gpu_types": [gpu_type], "min_gpus": gpus, "max_gpus": gpus, "gpus": None}
    )
    training = spec.training.model_copy(update={"adaptivity": Adaptivity.STRONG_SCALING})
    return spec.model_copy(
        update={
            "resources": resources,
            "training": training,
            "reservation": Reservation(gpu_type=gpu_type, gpus=gpus) if reserve else None,
            "preemptible": False,
        }
    )


def profile_views(
    jobs: Sequence[JobRecord], cluster: Cluster, share: float, now: float, sharing: Sharing | None = None
) -> dict[ProfileWork, JobView]:
    """Return the profile runs that take part in a round; those under way come first.

    In each pool, a GPU type's runs hold at most `share` of its GPUs, and one run is always allowed. Of a
    user's jobs with the same script and arguments one is measured; the others wait for what it finds.
    """
    room = {
        (pool, t): max(math.floor(share * gpus), 1)
        for pool, part in cluster.pools.items()
        for t, gpus in part.capacity().items()
    }
    held = dict.fromkeys(room, 0)
    begun: set[tuple[str, str, str]] = set()
    views: dict[ProfileWork, JobView] = {}
    runs = [
        (job, run)
        for job in jobs
        if job.phase in MEASURED_IN
        for run in job.profiles
        if run.ok is None and (run.active or run.startable)
    ]
    # What runs stays; then jobs that cannot train before they are measured, those that are owed GPUs first.
    owed = _owed(jobs, sharing)
    runs.sort(key=lambda pair: (not pair[1].active, pair[0].phase is not Phase.PROFILING, not owed(*pair)))
    for job, run in runs:
        gpus = job.spec.gpus_per_replica(run.gpu_type)
        kind = (job.spec.pool or "", run.gpu_type)
        if kind not in room or gpus is None:
            continue
        if not run.active and held[kind] and held[kind] + gpus > room[kind]:
            continue
        if waits_for_other_types(job, run, cluster.of_pool(kind[0]).gpu_types):
            continue
        twin = (job.owner, job.script_key or job.id, run.gpu_type)
        if twin in begun and not run.active:
            continue
        begun.add(twin)
        held[kind] += gpus
        work = ProfileWork(job.id, run.gpu_type)
        views[work] = _profile_view(work, job, run, now)
    return views


def _owed(jobs: Iterable[JobRecord], sharing: Sharing | None) -> Callable[[JobRecord, ProfileRun], bool]:
    """Return what tells whether a job's team has less of the type of a profile run than it was guaranteed."""
    if sharing is None or not any(terms.guarantee for terms in sharing.terms.values()):
        return lambda job, run: False
    used: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        if job.placement is not None and (team := sharing.team.get(job.id)) is not None:
            used[team, kind_of(job.placement.gpu_type, job.spec.pool)] += job.placement.gpus

    def owed(job: JobRecord, run: ProfileRun) -> bool:
        team, kind = sharing.team.get(job.id), kind_of(run.gpu_type, job.spec.pool)
        return team is not None and used[team, kind] < sharing.terms[team].guarantee.get(kind, 0)

    return owed


def waits_for_other_types(job: JobRecord, run: ProfileRun, present: Container[str]) -> bool:
    """Return whether a run whose script failed waits until it is known whether it fails on the other types."""
    return (
        bool(run.fault)
        and not run.active
        and any(o.ok is None and not o.fault and o.gpu_type in present for o in job.profiles if o is not run)
    )


def _profile_view(work: ProfileWork, job: JobRecord, run: ProfileRun, now: float) -> JobView:
    return JobView(
        id=work.id,
        spec=profile_spec(job.spec, run.gpu_type, reserve=not run.active),
        placement=placement_of((run.slot,)) if run.active and run.slot is not None else None,
        age_s=now - job.state.submitted_s,
        submitted_s=job.state.submitted_s,
        expected=PROFILE_RUN,
    )


def _kept_view(job: JobRecord, cluster: Cluster, now: float) -> JobView | None:
    """Return a job as one that stays where it is, as far as its nodes take part in rounds; None: none does."""
    slots = tuple(slot for slot in job.target if slot.node_id in cluster.by_id)
    if (placement := placement_of(slots)) is None:
        return None
    gpus, gpu_type = placement.gpus, placement.gpu_type
    resources = job.spec.resources.model_copy(
        update={
            "gpu_types": [gpu_type],
            "min_gpus": gpus,
            "max_gpus": gpus,
            "gpus": None,
            "gpus_per_replica": gpus // len(slots),
        }
    )
    training = job.spec.training.model_copy(update={"adaptivity": Adaptivity.STRONG_SCALING})
    kept = {"resources": resources, "training": training, "preemptible": False, "reservation": None, "sizes": None}
    return JobView(
        id=job.id,
        spec=job.spec.model_copy(update=kept),
        placement=placement,
        age_s=now - job.state.submitted_s,
        submitted_s=job.state.submitted_s,
    )


def _of_use(model: JobModel | None, job: JobRecord, cluster: Cluster) -> JobModel | None:
    """Return the model, but None where a job that is not measured first knows none of the types it may use.

    It may know others by another job of its script. It then starts as a job of which nothing is known.
    """
    if model is None or job.spec.is_measured_first:
        return model
    if any(t in model.throughput for t in allowed_types(job.spec, cluster)):
        return model
    return None


def job_view(
    job: JobRecord,
    model: JobModel | None,
    expected: Expected,
    store: Store,
    settings: Settings,
    now: float,
    usage: Mapping[str, UsageOn] | None = None,
) -> JobView:
    """Return a queued or running job as policies see it. `usage`: of GPUs; None: only its own."""
    held = store.held_time(job.id)
    return JobView(
        id=job.id,
        spec=job.spec,
        model=model,
        placement=job.placement,
        age_s=now - job.state.submitted_s,
        restarts=job.state.restarts + restart_is_under_way(job),
        restart_cost_s=expected_restart_s(job, settings, now),
        largest_gpus=job.largest_gpus,
        attained_gpu_s=held.gpu_s(now),
        progress=float(job.report.get("progress_samples", 0.0)),
        submitted_s=job.state.submitted_s,
        expected=expected,
        remaining=remaining(job.report),
        usage=job.usage if usage is None else usage,
        sensitivity=sensitivity_by(job.measurements),
        rewards=_rewards(job, store),
        borrows=job.borrows,
    )


def _rewards(job: JobRecord, store: Store) -> Rewards | None:
    """Return what ending by when is worth. A user who bumps own jobs moves their submission, and no deadline."""
    submitted_s = (store.find(job.id) or job).state.submitted_s
    found = rewards_of(job, submitted_s)
    return None if found is None else found.later(submitted_s - job.state.submitted_s)


def _with_longest(view: JobView, longest: Expected) -> JobView:
    return replace(view, longest_s=longest.mean_s) if longest.known else view


def _limited(view: JobView, most: Mapping[str, int], cluster: Cluster) -> JobView:
    gpu_types = cluster.of_pool(view.spec.pool or "").gpu_types
    return replace(view, spec=limited_spec(view.spec, most, gpu_types))


def _with_least(view: JobView, cluster: Cluster) -> JobView:
    if view.placement is None or (least := with_least(view.placement, view.spec, cluster)) is view.placement:
        return view
    return replace(view, placement=least)


def restart_is_under_way(job: JobRecord) -> bool:
    """Return whether a restart is under way. It counts from when it was asked for."""
    return job.moving_since_s is not None and job.state.started_s is not None


def expected_restart_s(job: JobRecord, settings: Settings, now: float) -> float:
    """Return the mean cost of the job's restarts, with the one under way if it takes longer than they did.

    Before the first restart it is what its starts took. Before the first start it is what the operator says.
    """
    measured = job.start_s if job.restart_cost_s is None else job.restart_cost_s
    known = settings.restart_cost_s if measured is None else measured
    if job.moving_since_s is None:
        return known
    so_far_s = min(now - job.moving_since_s, START_S)
    return max(known, (job.lost_s + so_far_s) / (job.pauses + 1))


def remaining(report: Mapping[str, Any]) -> float | None:
    """Return the samples at the initial batch size that are left of what the script asked for."""
    return samples_left(float(report.get("progress_samples", 0.0)), float(report.get("fraction", 0.0)))


def take_snapshot(
    jobs: Sequence[JobRecord],
    models: Mapping[str, JobModel | None],
    cluster: Cluster,
    store: Store,
    settings: Settings,
    now: float,
    lengths: RunLengths = NO_LENGTHS,
    asleep: Sequence[SleepingNode] = (),
    *,
    set_aside: Iterable[JobRecord] = (),
    most: Mapping[str, Mapping[str, int]] | None = None,
    sharing: Sharing | None = None,
    uses: Callable[[JobRecord], Mapping[str, UsageOn]] = lambda job: job.usage,
    arriving: Arrivals | None = None,
    foresight: Foresight | None = None,
    provisions: bool = False,
) -> Snapshot:
    """Return everything that wants GPUs now, in submission order.

    A job that only sleeping nodes can run takes part, too, so that whoever wakes nodes knows of it.

    Args:
        lengths: of earlier runs.
        set_aside: jobs that keep the GPUs that they have and get no others, as those in quarantine.
        most: GPUs by GPU type that single jobs may have at most, by id.
        sharing: what teams were promised; None: there are no teams.
        uses: what a job uses of its GPUs, by GPU type.
        arriving: what is foretold to arrive. foresight: what teams will submit.
        provisions: whether the policy chooses CPUs and memory, and so sees what jobs have of them.
    """
    profiles = profile_views(jobs, cluster, settings.profile_share, now, sharing)
    if sharing is not None:
        of = {work.id: sharing.team[work.job_id] for work in profiles if work.job_id in sharing.team}
        sharing = replace(sharing, measured_for=of)
    views = list(profiles.values())
    trains = [job for job in jobs if job.phase in TRAINED_IN and runs_somewhere(job.spec, cluster)]

    def trained_s(job_id: str) -> float:
        return store.held_time(job_id).served_s(0.0, now)

    expected = expectations(trains, models, cluster, lengths, trained_s)
    aim = [job for job in trains if job.spec.training.target is not None]
    longest = expectations(aim, models, cluster, lengths, trained_s, to_the_end=True) if aim else {}
    for job in trains:
        model = _of_use(models.get(job.id), job, cluster)
        trained = job_view(job, model, expected[job.id], store, settings, now, uses(job))
        views.append(_with_longest(trained, longest.get(job.id, UNKNOWN)))
    if most:
        views = [_limited(view, most[view.id], cluster) if view.id in most else view for view in views]
    views += [
        job_view(job, None, UNKNOWN if job.foretold is None else job.foretold.left(0.0), store, settings, now)
        for job in (jobs if asleep else ())
        if not job.occupied and not runs_somewhere(job.spec, cluster) and waited_for(job.spec, cluster, asleep)
    ]
    views += [view for job in set_aside if (view := _kept_view(job, cluster, now)) is not None]
    if not provisions:
        views = [_with_least(view, cluster) for view in views]
    views.sort(key=lambda view: (view.submitted_s, view.id))
    nodes = tuple(one.node for one in asleep)
    round = Round(now, settings.round_interval_s, cluster, views, nodes, sharing, arriving, foresight)
    return Snapshot(round, {work.id: work for work in profiles})
