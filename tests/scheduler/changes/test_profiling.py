"""What time, nodes and other jobs' measurements make of profile runs; no GPU of a run is ever forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from coadapt.core.cluster import Cluster
from coadapt.core.job import Phase
from coadapt.core.settings import Settings
from coadapt.scheduler.changes.commands import EndProfile, RestartExecutor
from coadapt.scheduler.changes.profiling import (
    finish_profiling,
    give_up_late,
    measure_on_new_types,
    measure_on_present_types,
    skip_known,
    why_not_measured,
)
from coadapt.scheduler.changes.reactions import react, start_profile
from coadapt.scheduler.jobs.record import JobRecord, ProfileRun

from tests.support.records import (
    CLUSTER,
    A,
    P,
    finished,
    job,
    measured,
    profiling,
    running,
    running_and_measured,
    said,
)

T4_ONLY = Cluster((CLUSTER.nodes[1],))
SETTINGS = Settings(profile_patience_s=300.0, profile_timeout_s=600.0, release_timeout_s=120.0)


def others_know(*gpu_types: str) -> Callable[[JobRecord], JobRecord]:
    return lambda found: replace(found, measurements=measured(*gpu_types))


# --- GPU types that come and go ----------------------------------------------------------------------------


def test_a_running_job_is_measured_on_a_type_that_joins() -> None:
    found = measure_on_new_types(replace(running(A), measurements=measured("t4")), CLUSTER, 5.0)
    assert said(found) == ["to be measured on a100, new in the cluster"]
    assert measure_on_new_types(found.job, CLUSTER, 6.0).events == ()


def test_a_job_whose_types_have_all_gone_is_measured_on_those_that_are_there() -> None:
    found = measure_on_present_types(profiling(ProfileRun("a100")), T4_ONLY, 5.0)
    assert [run.gpu_type for run in found.job.profiles] == ["t4"]
    assert (said(found), found.round) == (["to be measured on t4"], True)


def test_what_was_measured_before_the_other_types_went_is_kept() -> None:
    found = measure_on_present_types(profiling(ProfileRun("t4", ok=True), ProfileRun("a100")), T4_ONLY, 5.0)
    assert [run.gpu_type for run in found.job.profiles] == ["t4"]
    assert said(found) == ["its GPU types are gone"]


@pytest.mark.parametrize("cluster", [CLUSTER, Cluster(())], ids=["its type is there", "nothing is there"])
def test_a_job_goes_on_waiting_for_its_types(cluster: Cluster) -> None:
    waits = profiling(ProfileRun("a100"), ProfileRun("v100"))
    assert measure_on_present_types(waits, cluster, 5.0).job == waits


def test_a_run_whose_worker_may_still_be_on_its_gpu_is_not_forgotten_when_its_type_goes() -> None:
    started = start_profile(profiling(ProfileRun("a100")), "a100", P, 1.0).job
    assert measure_on_present_types(started, T4_ONLY, 2.0).job == started
    failed = react(started, finished(started, "a100", ok=False, reason="no"), 2.0).job
    assert not failed.profiles[0].active
    assert measure_on_present_types(failed, T4_ONLY, 3.0).job.occupied == (P,)


# --- what other jobs measure -------------------------------------------------------------------------------


def test_runs_on_types_that_another_job_has_measured_by_now_are_skipped() -> None:
    waits = profiling(ProfileRun("a100"), ProfileRun("t4"))
    found = skip_known(waits, others_know("t4"), 5.0)
    assert [(run.gpu_type, run.ok) for run in found.job.profiles] == [("a100", None), ("t4", True)]
    assert (said(found), found.job.measurements) == (["t4 known from another job"], measured("t4"))
    assert skip_known(waits, others_know("v100"), 5.0).job == waits


def test_a_run_that_is_under_way_is_not_skipped() -> None:
    started = start_profile(profiling(ProfileRun("t4")), "t4", A, 1.0).job
    assert skip_known(started, others_know("t4"), 5.0).job == started


# --- time ----------------------------------------------------------------------------------------------------


def test_a_run_that_takes_too_long_is_given_up_and_its_gpu_waited_for() -> None:
    started = start_profile(profiling(ProfileRun("t4")), "t4", A, 1.0).job
    assert give_up_late(started, SETTINGS, 601.0).job == started
    late = give_up_late(started, SETTINGS, 601.5)
    assert said(late) == ["the profile run on t4 did not end in 600 s"]
    assert (late.job.profiles[0].ok, late.job.occupied) == (False, (A,))
    assert late.commands == (EndProfile(A, 1),)


def test_an_executor_whose_run_does_not_leave_is_restarted_and_then_has_as_long_again() -> None:
    given_up = give_up_late(start_profile(profiling(ProfileRun("t4")), "t4", A, 1.0).job, SETTINGS, 700.0).job
    assert give_up_late(given_up, SETTINGS, 820.0).commands == ()
    stuck = give_up_late(given_up, SETTINGS, 821.0)
    assert stuck.commands == (RestartExecutor(),)
    assert give_up_late(stuck.job, SETTINGS, 940.0).commands == ()


def test_a_run_that_does_not_leave_is_asked_again_while_its_job_trains() -> None:
    given_up = give_up_late(running_and_measured(A), SETTINGS, 700.0).job
    assert (given_up.phase, given_up.held) == (Phase.RUNNING, (A,))
    assert give_up_late(given_up, SETTINGS, 820.0).commands == ()
    again = give_up_late(given_up, SETTINGS, 821.0)
    assert again.commands == (EndProfile(P, 1),)
    assert said(again) == ["did not leave its GPU on a100 in time, it is asked again"]
    assert give_up_late(again.job, SETTINGS, 940.0).commands == ()


def test_a_run_that_never_leaves_costs_a_restart_only_when_asking_did_not_help() -> None:
    job, sent = give_up_late(running_and_measured(A), SETTINGS, 700.0).job, []
    for now in range(820, 2000, 20):
        late = give_up_late(job, SETTINGS, float(now))
        job = late.job
        sent += [(now, type(command)) for command in late.commands]
    asked, restarted = sent[:3], sent[3]
    assert [(now, kind) for now, kind in asked] == [(840, EndProfile), (980, EndProfile), (1120, EndProfile)]
    assert restarted == (1260, RestartExecutor)
    assert [kind for _, kind in sent[4:7]] == [EndProfile] * 3


@pytest.mark.parametrize(
    ("runs", "known", "now", "phase"),
    [
        ((ProfileRun("t4", ok=True),), ("t4",), 1.0, Phase.QUEUED),
        ((ProfileRun("t4", ok=True), ProfileRun("a100", ok=False)), ("t4",), 1.0, Phase.QUEUED),
        ((ProfileRun("t4", ok=True), ProfileRun("a100")), ("t4",), 300.0, Phase.PROFILING),
        ((ProfileRun("t4", ok=True), ProfileRun("a100")), ("t4",), 300.5, Phase.QUEUED),
        ((ProfileRun("t4", ok=False, reason="no"), ProfileRun("a100")), (), 1e6, Phase.PROFILING),
        ((ProfileRun("t4", ok=True), ProfileRun("a100", P, 1.0)), ("t4",), 500.0, Phase.PROFILING),
        ((ProfileRun("t4", ok=False, reason="no"),), (), 1.0, Phase.FAILED),
        ((), (), 1.0, Phase.QUEUED),
    ],
    ids=[
        "all is measured",
        "one type is measured, the other cannot be",
        "it waits for the other type",
        "it has waited long enough",
        "with nothing measured it waits on",
        "a run under way is waited for",
        "nothing can be measured",
        "nothing is to be measured",
    ],
)
def test_a_job_queues_once_it_has_been_measured_or_has_waited_long_enough(
    runs: tuple[ProfileRun, ...], known: tuple[str, ...], now: float, phase: Phase
) -> None:
    waits = job(Phase.PROFILING, profiles=runs, measurements=measured(*known) if known else None)
    assert finish_profiling(waits, SETTINGS, now).job.phase is phase


def test_what_keeps_a_job_from_being_measured_is_told_once() -> None:
    runs = [
        ProfileRun(t, ok=False, reason=why) for t, why in (("a100", "no six"), ("t4", "no six"), ("rtx", "late"))
    ]
    told = "could not be measured on any GPU type: a100, t4: no six; rtx: late"
    assert why_not_measured(profiling(*runs)) == told
