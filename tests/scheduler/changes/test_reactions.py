"""What becomes of a job when its executor says something: every event has one meaning, also the second time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.events import EventKind
from coadapt.core.job import JobSpec, Phase
from coadapt.core.reports import MeasuredAt
from coadapt.core.slot import Slot
from coadapt.estimators.measurements import Measurements
from coadapt.executor.protocol.job_events import (
    Failing,
    JobFailed,
    JobFinished,
    Killed,
    ProfileFinished,
    Released,
    Reported,
    Running,
    WorkerLost,
)
from coadapt.scheduler.changes.profile_reuse import measured_types
from coadapt.scheduler.changes.reactions import (
    PROFILE_LOSSES,
    PROFILE_TRIES,
    Reaction,
    claim,
    end,
    force_out,
    lose_everything,
    lose_slots,
    react,
    start_profile,
)
from coadapt.scheduler.changes.unmeasured_types import with_new_types
from coadapt.scheduler.jobs.record import JobRecord, ProfileRun, Stopped
from coadapt.scheduler.rounds.profile_work import ProfileWork
from coadapt.scheduler.rounds.snapshot import profile_views
from coadapt.scheduler.views.job_views import job_details, job_row

from tests.support.records import (
    CLUSTER,
    REPORT,
    SPEC,
    A,
    B,
    C,
    P,
    counts,
    finished,
    job,
    measured,
    profiling,
    running,
    running_and_measured,
    said,
)
from tests.support.stored_rows import read_back


def fault(found: JobRecord, gpu_type: str, slot: Slot, reason: str = "ValueError: no", line: int = 7) -> Reaction:
    """Let a job's script fail while it is measured on a GPU type, and release the slot."""
    traceback = f'  File "/x/train.py", line {line}, in <module>\n{reason}\n'
    found = start_profile(found, gpu_type, slot, 1.0).job
    failed = react(found, finished(found, gpu_type, ok=False, reason=reason, fault=True, traceback=traceback), 2.0)
    return replace(failed, job=react(failed.job, Released(0, (slot,)), 3.0).job)


D = Slot("n4", "l", (0,), "a100", emulated=True)


def test_a_started_job_runs_and_remembers_how_large_it_was() -> None:
    found = running(A, B)
    assert found.phase is Phase.RUNNING
    assert found.largest_gpus == {"t4": 2}
    assert found.state.started_s == 2.0
    assert (found.state.restarts, found.restart_cost_s) == (0, None)


def test_the_cost_of_a_restart_is_the_mean_of_those_measured() -> None:
    found = running(A)
    for pause in (2.0, 4.0):
        found = react(found, Running(found.sequence, (A,), warm=True, pause_s=pause), 3.0).job
    assert (found.state.restarts, found.restart_cost_s) == (2, 3.0)


def test_gpus_that_waited_for_their_processes_count_as_the_cost_of_a_warm_resize() -> None:
    grown = claim(running(A), (A, B), 10.0).job
    found = react(grown, Running(grown.sequence, (A, B), warm=True, pause_s=0.05), 18.0).job
    assert found.restart_cost_s == 4.0  # half of the GPUs waited 8 s
    recovered = react(found, Running(found.sequence, (A, B), warm=True, pause_s=0.4), 100.0).job
    assert recovered.restart_cost_s == (4.0 + 0.4) / 2


def test_an_answer_that_comes_twice_counts_once() -> None:
    grown = claim(running(A), (A, B), 10.0).job
    answer = Running(grown.sequence, (A, B), warm=True, pause_s=0.5, recovered=True, generation=2)
    once = react(grown, answer, 18.0).job
    assert (once.state.restarts, once.state.recoveries, once.pauses) == (1, 1, 1)
    assert react(once, answer, 48.0).job == once
    again = lose_everything(once, "its executor was restarted", 50.0).job
    assert (
        react(
            claim(again, (A,), 51.0).job,
            replace(answer, sequence=again.sequence + 1, slots=(A,), generation=1),
            55.0,
        ).job.state.restarts
        == 2
    )


def test_the_queue_is_no_cost_of_a_restart() -> None:
    found = running(A)
    found = react(claim(found, (), 10.0).job, Released(found.sequence + 1, (A,)), 11.0).job
    found = claim(found, (B,), 600.0).job
    found = react(found, Running(found.sequence, (B,), warm=False, pause_s=597.0), 608.0).job
    assert found.restart_cost_s == 8.0


def test_a_job_remembers_how_long_its_processes_took_to_start_and_its_moves_paused_it() -> None:
    found = claim(running(A), (A, B), 10.0).job
    found = react(found, Running(found.sequence, (A, B), warm=True, pause_s=0.5), 18.0).job
    assert (found.starts, found.starting_s) == (running(A).starts + 1, running(A).starting_s + 8.0)
    found = claim(found, (A,), 30.0).job
    found = react(found, Running(found.sequence, (A,), warm=True, pause_s=0.1), 31.0).job
    assert found.starting_s == running(A).starting_s + 8.0  # nothing had to start
    assert found.pause_s == pytest.approx(0.3)


def test_a_move_to_other_gpus_cost_what_they_waited_though_the_old_ones_were_left_before() -> None:
    found = claim(running(A), (B,), 10.0).job
    found = react(found, Released(found.sequence, (A,)), 34.9).job
    found = react(found, Running(found.sequence, (B,), warm=False, pause_s=0.4), 35.0).job
    assert (found.restart_cost_s, found.pause_s) == (25.0, 0.4)


def test_an_answer_to_an_earlier_command_is_timed_by_that_command() -> None:
    found = claim(claim(running(A), (B,), 10.0).job, (C,), 34.9).job
    found = react(found, Running(found.sequence - 1, (B,), warm=False, pause_s=0.4), 35.0).job
    assert found.restart_cost_s == 25.0
    assert found.moving_since_s == 34.9, "the last command is not carried out yet"
    found = react(found, Running(found.sequence, (C,), warm=False, pause_s=0.4), 54.9).job
    assert (found.restart_cost_s, found.moving_since_s) == ((25.0 + 20.0) / 2, None)


def test_leaving_slots_are_held_until_they_are_released() -> None:
    shrunk = claim(running(A, B), (A,), 10.0).job
    assert set(shrunk.held) == {A, B}
    assert shrunk.pending_since_s == 10.0
    released = react(shrunk, Released(shrunk.sequence, (B,)), 11.0).job
    assert released.held == (A,)
    assert released.pending_since_s is None
    assert released.phase is Phase.RUNNING


def test_a_stopped_job_queues_when_its_last_slot_is_released() -> None:
    stopped = claim(running(A), (), 10.0).job
    assert stopped.phase is Phase.RUNNING
    assert react(stopped, Released(stopped.sequence, (A,)), 11.0).job.phase is Phase.QUEUED


def test_the_log_tells_what_a_job_holds_until_it_has_left_it() -> None:
    moved = claim(running(A), (P,), 10.0)
    assert moved.events[0].data["gpu_type"] == "a100"
    assert moved.events[0].data["held"] == {"a100": 1, "t4": 1}
    runs = react(moved.job, Running(moved.job.sequence, (P,), warm=False), 11.0)
    assert runs.events[0].data["held"] == {"a100": 1, "t4": 1}
    left = react(runs.job, Released(moved.job.sequence, (A,)), 12.0)
    assert left.events[0].data["held"] == {"a100": 1}
    assert lose_slots(left.job, frozenset(), 13.0).events[0].data["held"] == {}
    assert lose_everything(left.job, "gone", 13.0).events[0].data["held"] == {}


def test_an_old_release_takes_nothing_from_newer_claims() -> None:
    grown = claim(running(A), (A, B), 10.0).job
    late = react(grown, Released(grown.sequence - 1, (B,)), 11.0).job
    assert set(late.target) == set(late.held) == {A, B}


def test_a_slot_given_up_by_the_executor_is_lost_to_the_job() -> None:
    found = running(A, B)
    assert react(found, Released(found.sequence, (B,)), 11.0).job.target == (A,)


def test_a_job_that_gave_up_gpus_on_which_it_trained_asks_for_a_round() -> None:
    found = running(A, B)
    assert react(found, Released(found.sequence, (B,)), 11.0).round


def test_gpus_on_which_nothing_could_start_are_not_tried_again_at_once() -> None:
    grown = claim(running(A), (A, B), 10.0).job
    assert not react(grown, Released(grown.sequence, (B,)), 11.0).round


def test_an_executor_that_was_restarted_gives_everything_back() -> None:
    found = react(running(A, B), Released(0, (), everything=True), 11.0)
    assert found.job.occupied == ()
    assert found.job.phase is Phase.QUEUED
    assert found.job.state.recoveries == 1
    assert found.round


def test_a_new_executor_that_says_so_changes_nothing() -> None:
    fresh = job()
    assert react(fresh, Released(0, (), everything=True), 11.0).job == fresh


def test_lost_nodes_take_their_slots_along() -> None:
    found = running(A, B)
    left = lose_slots(found, frozenset({"n1"}), 9.0)
    assert left.job.target == left.job.held == left.job.group == (A,)
    assert left.round
    assert lose_slots(left.job, frozenset({"n1"}), 9.0).job == left.job
    assert lose_slots(found, frozenset(), 9.0).job.phase is Phase.QUEUED


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED])
def test_nothing_wakes_a_job_that_has_ended(phase: Phase) -> None:
    ended = end(running(A), phase, "over", 5.0).job
    late = [
        Running(1, (A,), warm=True),
        Reported(REPORT, Measurements()),
        JobFinished(),
        JobFailed("again", "", 1),
        WorkerLost("late"),
        ProfileFinished("t4", ok=True),
    ]
    for event in late:
        assert react(ended, event, 6.0).job == ended
    assert ended.held == (A,)
    assert react(ended, Released(1, (A,)), 6.0).job.held == ()


def test_processes_that_had_to_be_killed_are_told_and_are_no_lost_worker() -> None:
    what = "rank 0 went on 5 s after SIGTERM and was killed"
    cancelled = end(running(A), Phase.CANCELLED, "cancelled by the user", 4.0).job
    for known in (running(A), cancelled):
        reaction = react(known, Killed(what), 5.0)
        assert reaction.job == known
        assert [(event.kind, event.data["text"]) for event in reaction.events] == [(EventKind.KILLED, what)]


def test_a_finished_job_keeps_its_last_metrics() -> None:
    reported = react(running(A), Reported(REPORT, measured("t4")), 3.0).job
    done = react(reported, JobFinished({"loss": 0.1}, target_reached=True), 4.0).job
    assert done.phase is Phase.SUCCEEDED
    assert done.metrics == {"accuracy": 0.9, "loss": 0.1}
    assert done.measurements == measured("t4")
    assert done.state.reason == "reached its target"
    assert job_row(done)["fraction"] == 1.0


def test_a_metric_says_at_which_epoch_and_sample_it_was_measured_also_after_later_reports() -> None:
    first = replace(REPORT, measured_at={"accuracy": MeasuredAt(2, 6000)})
    job = react(running(A), Reported(first, measured("t4")), 3.0).job
    later = replace(REPORT, metrics={"loss": 0.2}, measured_at={"loss": MeasuredAt(3, 7000)})
    job = react(job, Reported(later, measured("t4")), 4.0).job
    expected = {"accuracy": {"epoch": 2, "samples": 6000}, "loss": {"epoch": 3, "samples": 7000}}
    assert job_row(job)["measured_at"] == expected
    done = react(read_back(job), JobFinished({"loss": 0.2}), 5.0).job
    assert job_row(done)["measured_at"] == expected


def test_tries_of_a_failing_script_are_counted_for_the_user() -> None:
    found = react(running(A), Failing("ValueError: no", 2), 4.0).job
    assert found.state.failures == 2
    assert "try 2" in found.state.reason


def test_a_job_whose_gpus_went_to_others_was_evicted_and_its_time_in_the_queue_is_no_pause_of_a_move() -> None:
    stopped = claim(running(A, B), (), 10.0)
    assert said(stopped) == ["is to leave its GPUs to other jobs"]
    left = react(stopped.job, Released(stopped.job.sequence, (A, B)), 11.0)
    assert [(event.kind, event.data["text"]) for event in left.events] == [
        ("evicted", "training left 2xt4: evicted, other jobs get them")
    ]
    assert (left.job.state.reason, counts(left.job)) == ("other jobs have its GPUs", {"evictions": 1})
    back = claim(left.job, (C,), 200.0).job
    back_again = react(back, Running(back.sequence, (C,), warm=False, pause_s=195.5), 206.0)
    assert said(back_again) == ["runs on 1xt4 on 1 node, after it was evicted for 195.50 s"]
    assert counts(back_again.job) == {"restarts": 1, "evictions": 1}
    assert back_again.job.stopped is None


def test_a_job_that_stays_after_all_was_not_evicted() -> None:
    stays = claim(claim(running(A), (), 10.0).job, (A,), 10.5).job
    stays = react(stays, Running(stays.sequence, (A,), warm=False), 11.0).job
    lost = react(stays, Released(stays.sequence, (A,)), 12.0)
    assert said(lost) == ["training gave up 1xt4: its workers could not start there"]
    assert (lost.job.phase, counts(lost.job)) == (Phase.QUEUED, {})


@pytest.mark.parametrize(
    ("why", "text"),
    [
        (Stopped.DRAINED, "training left 1xt4: their nodes are going away"),
        (Stopped.DOWN, "training left 1xt4: the scheduler ends"),
    ],
)
def test_only_a_job_whose_gpus_go_to_others_is_evicted(why: Stopped, text: str) -> None:
    stopped = claim(running(A), (), 10.0, why).job
    left = react(stopped, Released(stopped.sequence, (A,)), 11.0)
    assert (said(left), counts(left.job)) == ([text], {})
    assert read_back(left.job).stopped is why


def test_a_resize_a_recovery_and_a_retry_are_counted_apart() -> None:
    found = claim(running(A), (A, B), 10.0).job
    found = react(found, Running(found.sequence, (A, B), warm=True, pause_s=0.5, generation=2), 18.0).job
    assert counts(found) == {"restarts": 1, "resizes": 1}
    again = Running(found.sequence, (A,), warm=True, pause_s=0.4, recovered=True, generation=3)
    found = react(found, again, 30.0).job
    assert counts(found) == {"restarts": 2, "resizes": 1, "recoveries": 1}
    cost_s = found.restart_cost_s
    failing = react(found, Failing("ValueError: no", 1, "Traceback …"), 40.0).job
    assert (failing.retrying, failing.traceback) == (True, "Traceback …")
    tried = Running(found.sequence, (A, B), warm=False, pause_s=6.0, generation=4, retried=True)
    back = react(failing, tried, 46.0)
    assert said(back) == ["runs on 2xt4 on 2 nodes, again 6.00 s after its script failed"]
    assert counts(back.job) == {"restarts": 2, "resizes": 1, "recoveries": 1, "failures": 1}
    assert back.job.restart_cost_s == cost_s, "what its errors cost is not what a move costs"
    assert not back.job.retrying


def test_who_left_gpus_and_why_is_told() -> None:
    moved = claim(running(A), (B, C), 10.0).job
    assert said(react(moved, Released(moved.sequence, (A,)), 12.0)) == ["training left 1xt4 for 2xt4"]
    ended = end(running(A), Phase.CANCELLED, "cancelled by the user", 5.0).job
    assert said(react(ended, Released(1, (A,)), 6.0)) == ["its workers left 1xt4: it has ended"]
    started = start_profile(profiling(ProfileRun("t4")), "t4", A, 1.0).job
    measured_there = react(started, finished(started, "t4", ok=True, measurements=measured("t4")), 2.0).job
    assert said(react(measured_there, Released(0, (A,)), 3.0)) == ["its profile run left 1xt4"]


def test_a_profile_run_holds_its_slot_until_it_is_released() -> None:
    started = start_profile(profiling(ProfileRun("t4"), ProfileRun("a100")), "t4", A, 1.0).job
    assert started.occupied == (A,)
    ended = react(started, finished(started, "t4", ok=True, measurements=measured("t4")), 2.0).job
    assert ended.occupied == (A,)
    assert react(ended, finished(ended, "t4", ok=True), 3.0).job == ended
    assert react(ended, Released(0, (A,)), 3.0).job.occupied == ()


def test_a_profile_run_that_fails_is_tried_once_more() -> None:
    failed = {"ok": False, "reason": "RuntimeError: no"}
    first = start_profile(profiling(ProfileRun("t4")), "t4", A, 1.0).job
    first = react(first, finished(first, "t4", **failed), 2.0).job
    assert first.occupied == (A,)
    assert profile_views([first], CLUSTER, 1.0, 2.0) == {}, "not before the first run's GPU is free"
    first = react(first, Released(0, (A,)), 2.5).job
    assert first.profile("t4") == ProfileRun("t4", reason="RuntimeError: no", sequence=1, tries=1)
    second = start_profile(first, "t4", B, 3.0).job
    assert react(second, finished(first, "t4", **failed), 3.5).job == second, "the first one's end, told again"
    second = react(second, finished(second, "t4", **failed), 4.0).job
    assert second.profiles[0].ok is False
    assert job_details(second, [])["profiles"] == {"t4": "could not be measured: RuntimeError: no"}


def test_the_same_error_on_two_gpu_types_fails_the_job_at_once_with_its_traceback() -> None:
    first = fault(profiling(ProfileRun("a100"), ProfileRun("t4")), "a100", D)
    assert (first.job.phase, counts(first.job)) == (Phase.PROFILING, {"failures": 1})
    second = fault(first.job, "t4", A)
    assert (second.job.phase, second.job.state.reason, counts(second.job)) == (
        Phase.FAILED,
        "ValueError: no",
        {"failures": 2},
    )
    assert "train.py" in job_details(second.job, [])["traceback"]
    told = dict.fromkeys(("a100", "t4"), "could not be measured: ValueError: no")
    assert (job_details(second.job, [])["profiles"], second.job.occupied) == (told, ())
    assert job_details(first.job, [])["profiles"]["a100"] == "to be measured again: ValueError: no"
    assert said(second)[-1] == "ValueError: no (the same error twice, and no progress between)"


def test_on_its_only_gpu_type_the_same_error_twice_is_enough() -> None:
    second = fault(fault(profiling(ProfileRun("t4")), "t4", A).job, "t4", A)
    assert (second.job.phase, counts(second.job)) == (Phase.FAILED, {"failures": 2})


def test_an_error_on_one_gpu_type_alone_is_the_types() -> None:
    both = profiling(ProfileRun("a100", ok=True), ProfileRun("t4"))
    second = fault(fault(both, "t4", A).job, "t4", A).job
    assert (second.phase, second.profile("t4").ok) == (Phase.PROFILING, False)


def test_where_its_script_failed_a_job_is_measured_again_once_the_other_types_have_told() -> None:
    once = fault(profiling(ProfileRun("a100"), ProfileRun("t4")), "t4", A).job
    assert list(profile_views([once], CLUSTER, 1.0, 4.0)) == [ProfileWork("j-1", "a100")]
    without = Cluster((Node("n2", "t4", 8),))
    assert list(profile_views([once], without, 1.0, 4.0)) == [ProfileWork("j-1", "t4")]
    measured_there = start_profile(once, "a100", D, 4.0).job
    measured_there = react(measured_there, finished(measured_there, "a100", ok=True), 5.0).job
    assert list(profile_views([measured_there], CLUSTER, 1.0, 6.0)) == [ProfileWork("j-1", "t4")]


def test_other_errors_are_tried_again_as_far_as_max_failures_allows() -> None:
    spec = SPEC.model_copy(update={"max_failures": 1})
    two = replace(profiling(ProfileRun("a100"), ProfileRun("t4")), spec=spec)
    first = fault(two, "a100", D)
    assert first.job.phase is Phase.PROFILING
    second = fault(first.job, "t4", A, line=9)
    assert (second.job.phase, counts(second.job)) == (Phase.FAILED, {"failures": 2})
    assert said(second)[-1] == "ValueError: no (2 errors, of 1 that max_failures allows)"


@pytest.mark.parametrize(
    "reason", ["train.py never called coadapt.prepare", "SyntaxError: invalid syntax (model.py, line 3)"]
)
def test_an_end_that_cannot_be_another_is_final_at_once(reason: str) -> None:
    ended = fault(profiling(ProfileRun("a100"), ProfileRun("t4")), "a100", D, reason)
    assert (ended.job.phase, ended.job.state.reason) == (Phase.FAILED, reason)


def test_errors_while_measured_and_while_training_are_counted_together() -> None:
    found = fault(profiling(ProfileRun("a100", ok=True), ProfileRun("t4")), "t4", A).job
    found = replace(found, state=replace(found.state, phase=Phase.QUEUED))
    found = claim(found, (D,), 5.0).job
    found = react(found, Running(found.sequence, (D,), warm=False), 6.0).job
    failing = react(found, Failing("KeyError: 'x'", 1), 7.0)
    assert (counts(failing.job), said(failing)) == ({"failures": 2}, ["try 2 failed: KeyError: 'x'"])
    assert counts(react(failing.job, JobFailed("KeyError: 'x'", "", 2), 9.0).job) == {"failures": 3}


def test_a_job_that_ended_by_itself_has_succeeded_and_says_how_far_it_was() -> None:
    reported = react(running(A), Reported(REPORT, None), 3.0).job
    done = react(reported, JobFinished({}, ended_early="epoch 2 of 10"), 4.0).job
    row = job_row(read_back(done))
    assert (row["phase"], row["reason"]) == ("succeeded", "ended by itself after epoch 2 of 10")
    assert row["fraction"] == 0.2


def test_a_command_that_ended_at_once_with_status_0_has_done_all() -> None:
    command = replace(running(A), spec=JobSpec(name="j", command=["true"]))
    row = job_row(react(command, JobFinished({}, ended_early="0.1 s"), 4.0).job)
    assert (row["reason"], row["fraction"]) == ("ended by itself after 0.1 s", 1.0)


def test_a_job_that_does_not_leave_is_counted_as_there_until_its_executor_is_back() -> None:
    stopped = claim(running(A), (), 10.0).job
    late = force_out(stopped, 200.0).job
    assert late.held == (A,)
    assert (late.pending_since_s, late.state.evictions) == (200.0, 0)
    gone = react(late, Released(0, (), everything=True), 201.0).job
    assert gone.held == ()
    assert (gone.state.evictions, gone.state.recoveries) == (1, 0), "it was to leave, and is not recovered"


def test_a_profile_run_starts_again_after_its_executor_or_node_was_lost() -> None:
    started = start_profile(profiling(ProfileRun("t4")), "t4", A, 1.0).job
    for lost in (lose_everything(started, "gone", 2.0), lose_slots(started, frozenset(), 2.0)):
        assert not lost.job.profiles[0].active
        assert lost.job.phase is Phase.PROFILING


def test_a_running_job_is_measured_on_a_gpu_type_that_joins_and_goes_on_running() -> None:
    found = with_new_types(replace(running(A), measurements=measured("t4")), CLUSTER)
    assert [(run.gpu_type, run.ok) for run in found.profiles] == [("a100", None), ("t4", True)]
    assert with_new_types(found, CLUSTER) is found
    assert list(profile_views([found], CLUSTER, 0.5, 4.0)) == [ProfileWork("j-1", "a100")]
    started = start_profile(found, "a100", P, 5.0).job
    assert (started.phase, started.target, started.held, started.group) == (Phase.RUNNING, (A,), (A,), (A,))
    assert started.sequence == found.sequence, "what it trains on was not asked anew"
    assert set(started.occupied) == {A, P}
    done = react(started, finished(started, "a100", ok=True, measurements=measured("t4", "a100")), 6.0)
    assert done.round
    assert measured_types(done.job.measurements) == {"t4", "a100"}
    freed = react(done.job, Released(1, (P,)), 7.0).job
    assert (freed.phase, freed.occupied, freed.pending_since_s) == (Phase.RUNNING, (A,), None)


def test_losing_the_node_of_a_profile_run_costs_a_running_job_nothing() -> None:
    started = running_and_measured(A)
    lost = react(started, finished(started, "a100", ok=False, reason="node lost", lost=True), 6.0).job
    for found in (lose_slots(lost, frozenset({"n1"}), 7.0).job, lose_slots(started, frozenset({"n1"}), 7.0).job):
        run = found.profile("a100")
        assert run is not None
        assert (run.startable, run.tries) == (True, 0)
        assert (found.phase, found.occupied, found.state) == (Phase.RUNNING, (A,), started.state)


def test_a_worker_that_is_always_lost_ends_the_profile_run() -> None:
    found, lost = running_and_measured(A), {"ok": False, "reason": "lost", "lost": True}
    for _ in range(PROFILE_LOSSES + PROFILE_TRIES - 1):
        found = react(react(found, finished(found, "a100", **lost), 6.0).job, Released(1, (P,)), 6.0).job
        assert found.profiles[0].startable
        found = start_profile(found, "a100", P, 7.0).job
    assert react(found, finished(found, "a100", **lost), 8.0).job.profiles[0].ok is False


def test_a_training_slot_that_is_given_up_during_a_profile_run_is_lost_to_the_job() -> None:
    started = running_and_measured(A, B)
    assert react(started, Released(started.sequence, (B,)), 6.0).job.target == (A,)


def test_reports_during_a_profile_run_and_after_take_nothing_from_what_other_jobs_measured() -> None:
    known = replace(running_and_measured(A), measurements=measured("t4", "v100"))
    reported = react(known, Reported(REPORT, measured("t4")), 8.0).job
    assert measured_types(reported.measurements) == {"t4", "v100"}
    queued = react(reported, Released(0, (), everything=True), 9.0).job
    assert (queued.phase, queued.occupied) == (Phase.QUEUED, ())


def test_a_late_release_says_nothing_of_a_slot_that_was_given_again_since() -> None:
    back = claim(claim(running(A, B), (A,), 10.0).job, (A, B), 10.5).job
    left = claim(back, (A,), 11.0).job
    late = react(left, Released(left.sequence - 2, (B,)), 11.1).job
    assert set(late.held) == {A, B}, "a worker may have started there again"
    assert react(late, Released(left.sequence, (B,)), 12.0).job.held == (A,)
    assert react(late, Released(left.sequence, (B,)), 12.0).job.last_grant == ()


def test_a_command_that_reaches_a_restarted_executor_after_all_is_in_force() -> None:
    lost = react(claim(running(A), (B,), 10.0).job, Released(0, everything=True), 11.0).job
    assert (lost.target, lost.held) == ((), ())
    found = react(lost, Running(lost.sequence, (B,), warm=False), 20.0).job
    assert (found.target, found.held) == ((B,), (B,)), "so that it is told to leave, if it is to have nothing"
    stopped = react(claim(running(A), (), 10.0).job, Running(1, (A,), warm=False), 11.0).job
    assert stopped.target == ()


def test_a_job_has_its_time_to_leave_from_when_it_can() -> None:
    moving = claim(running(A), (B,), 10.0).job
    assert moving.pending_since_s == 10.0
    assert claim(moving, (C,), 50.0).job.pending_since_s == 10.0, "it still is to leave the same"
    assert claim(moving, (A,), 440.0).job.pending_since_s == 440.0, "now it is to leave the others"
    assert claim(moving, (), 440.0).job.pending_since_s == 440.0, "it need not wait for processes any more"
    moved = react(moving, Running(moving.sequence, (B,), warm=False, pause_s=0.5), 440.0).job
    assert moved.pending_since_s == 440.0, "before, its processes were starting"
