"""What a policy is told of a record: what a restart costs, and the profile runs that take part in a round."""

from __future__ import annotations

from dataclasses import replace

from coadapt.core.job import ResourceRequest
from coadapt.core.settings import Settings
from coadapt.executor.protocol.job_events import Running
from coadapt.policies.contract.sharing import Sharing, TeamTerms
from coadapt.scheduler.changes.reactions import claim, react, start_profile
from coadapt.scheduler.jobs.record import ProfileRun
from coadapt.scheduler.rounds.profile_work import ProfileWork
from coadapt.scheduler.rounds.snapshot import expected_restart_s, profile_views, restart_is_under_way

from tests.support.records import CLUSTER, SPEC, A, B, job, profiling, running


def test_before_the_first_restart_it_is_taken_to_cost_what_the_start_took() -> None:
    settings = Settings(restart_cost_s=30.0)
    assert expected_restart_s(job(), settings, 1.0) == 30.0
    assert expected_restart_s(running(A), settings, 5.0) == running(A).start_s == 1.0


def test_a_restart_counts_from_when_it_is_asked_for_and_costs_at_least_what_it_has_by_now() -> None:
    starting = claim(job(), (A,), 1.0).job
    assert not restart_is_under_way(starting), "a first start is none"
    moving = claim(running(A), (B,), 10.0).job
    assert [restart_is_under_way(found) for found in (running(A), moving)] == [False, True]
    assert [expected_restart_s(moving, Settings(), now) for now in (10.5, 17.0)] == [1.0, 7.0]
    assert not restart_is_under_way(claim(moving, (), 18.0).job)
    moved = react(moving, Running(moving.sequence, (B,), warm=False, pause_s=0.5), 20.0).job
    assert (restart_is_under_way(moved), moved.state.restarts) == (False, 1)


def test_profile_runs_hold_a_bounded_share_of_each_gpu_type() -> None:
    jobs = [replace(profiling(ProfileRun("a100"), ProfileRun("t4")), id=f"j-{i}", number=i) for i in range(6)]
    works = list(profile_views(jobs, CLUSTER, 0.25, 10.0))
    assert works == [ProfileWork("j-0", "a100"), ProfileWork("j-0", "t4"), ProfileWork("j-1", "t4")]


def test_jobs_of_a_team_that_is_owed_gpus_are_measured_first() -> None:
    jobs = [replace(profiling(ProfileRun("t4")), id=f"j-{i}", number=i) for i in range(3)]
    has = replace(running(A), id="has")  # one t4
    team = {"j-0": "guests", "j-1": "guests", "j-2": "owner", "has": "owner"}
    for guarantee, first in ((2, "j-2"), (1, "j-0")):  # it lacks one, or has what it was guaranteed
        sharing = Sharing({"owner": TeamTerms({"t4": guarantee}), "guests": TeamTerms({"a100": 1})}, team)
        works = list(profile_views([*jobs, has], CLUSTER, 0.125, 10.0, sharing))
        assert works == [ProfileWork(first, "t4")]


def test_of_jobs_with_the_same_script_only_one_is_measured() -> None:
    twins = [
        replace(profiling(ProfileRun("t4")), id=f"j-{i}", number=i, script_key=key)
        for i, key in enumerate(["same", "same", "other"])
    ]
    assert list(profile_views(twins, CLUSTER, 1.0, 10.0)) == [ProfileWork("j-0", "t4"), ProfileWork("j-2", "t4")]


def test_a_profile_run_is_one_replica_with_room_made_for_it() -> None:
    spec = SPEC.model_copy(
        update={"resources": ResourceRequest(max_gpus=8, gpus_per_replica={"t4": 2, "a100": 1})}
    )
    ((work, view),) = profile_views([replace(profiling(ProfileRun("t4")), spec=spec)], CLUSTER, 0.25, 10.0).items()
    assert (view.id, work) == (work.id, ProfileWork("j-1", "t4"))
    assert (view.spec.resources.gpu_types, view.spec.resources.max_gpus) == (["t4"], 2)
    assert view.spec.reservation is not None
    assert view.spec.reservation.gpus == 2


def test_a_profile_run_under_way_stays_where_it_is() -> None:
    started = start_profile(profiling(ProfileRun("t4")), "t4", B, 1.0).job
    ((_, view),) = profile_views([started], CLUSTER, 0.01, 10.0).items()
    assert view.placement is not None
    assert view.placement.by_node == {"n2": 1}
    assert view.spec.preemptible is False
