"""Pause, resume and requeue: a job holds, goes on or runs again as its user asks, also over a killed service."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.errors import JobStateError
from coadapt.core.job import JobSpec, Phase
from coadapt.executor.protocol.job_events import JobFailed, JobFinished, Released
from coadapt.scheduler.changes.reactions import Reaction, end, lose_everything, react
from coadapt.scheduler.changes.status import Status, status_of
from coadapt.scheduler.changes.verbs import pause, requeue, resume, resume_changed
from coadapt.scheduler.jobs.record import ChangedFile, JobRecord, Stopped
from coadapt.scheduler.views.explaining import explain
from coadapt.scheduler.views.job_views import job_details, job_row
from coadapt.scheduler.views.waiting import wait_reason

from tests.support.cycles import RUNS, World
from tests.support.records import A, B, job, running, said
from tests.support.stored_rows import read_back

STORIES = {
    "a paused job saves, leaves its GPUs at once and gets none, while others get them": RUNS
    + """
        pause a
        ? sent assign a nothing
        ? a running
        submit b unprofiled
        wish b t4-000:4
        go
        ? sent
        left a
        ? a queued
        go
        ? sent assign b 4xt4
        after 1000
        go
        ? sent retire a
        ? a queued
        ? a said paused by the user: it leaves 2xt4
    """,
    "a resumed job gets GPUs from the next round on": RUNS
    + """
        pause a
        left a
        go
        resume a
        go
        ? sent assign a nothing | assign a 2xt4
        runs a
        ? a running
        ? a counts evictions 0
        ? a said after it was paused for 2.00 s
        ? did a admitted, placed, running, pause, released, resume, placed, running
    """,
    "a job that is resumed while it still leaves gets its GPUs again": RUNS
    + """
        pause a
        resume a
        go
        ? sent assign a nothing | assign a 2xt4
        left a
        ? a running
    """,
    "a job stays paused over a restart of the service, which tells its executor again": RUNS
    + """
        pause a
        reopen a=1
        ? sent assign a nothing | assign a nothing | assign a 2xt4
        left a
        go
        reopen a
        go
        ? sent
        resume a
        go
        ? sent assign a 2xt4
    """,
    "a job that is paused while it is measured leaves its GPU and is measured later": """
        submit a types=t4
        go
        pause a
        ? sent profile a t4 | end_profile a t4
        ? a held 1
        leftrun a t4
        ? a held 0
        after 1000
        go
        ? sent retire a
        ? a profiling
        resume a
        go
        ? sent profile a t4
        measured a t4
        go
        ? a queued
    """,
    "a job can be paused before it was admitted, and waits until it is resumed": """
        unready
        submit a unprofiled
        pause a
        nodes 1x t4:4
        wish a t4-000:2
        go
        ? a queued
        ? sent
        resume a
        go
        ? sent assign a 2xt4
    """,
    "a paused job can be cancelled, and a resumed one after that goes on": RUNS
    + """
        pause a
        left a
        cancel a
        go
        ? a retired
        ? sent assign a nothing | cancel a | retire a
        resume a
        go
        ? sent assign a 2xt4
    """,
    "a requeued job leaves its GPUs at once and takes part in the next round": RUNS
    + """
        submit b unprofiled
        wish b t4-000:4
        wish a
        requeue a
        ? sent assign a nothing
        left a
        ? a queued
        go
        ? sent assign b 4xt4
        ? a said requeued by the user: it leaves 2xt4
    """,
    "a requeue holds over a restart of the service before its executor knows": RUNS
    + """
        requeue a
        reopen a=1
        ? sent assign a nothing | assign a nothing | assign a 2xt4
        left a
        ? a queued
        go
        ? sent assign a 2xt4
    """,
    "a failed job that is resumed begins a new life when its executor is gone, and may fail as often again": RUNS
    + """
        failing a
        fail a
        ? a failed
        left a
        go
        ? a retired
        resume a
        ? a submitted
        ? a counts failures 0
        go
        ? sent retire a | assign a 2xt4
        runs a
        finish a
        ? a succeeded
        left a
        go
        ? sent retire a
    """,
    "a cancelled job that is resumed waits until its old executor has left its GPUs": RUNS
    + """
        cancel a
        resume a
        ? a submitted
        ? a because waiting until its last processes have left their GPUs
        go
        ? sent cancel a
        ? a held 2
        left a
        go
        ? sent retire a | assign a 2xt4
        ? a held 2
        runs a
        ? a running
    """,
    "a cancelled job that is resumed goes on in time though its old executor leaves nothing": RUNS
    + """
        cancel a
        resume a
        after 130
        go
        ? sent cancel a | retire a | assign a 2xt4
    """,
    "a cancelled job that is resumed and cancelled again stays cancelled": RUNS
    + """
        cancel a
        resume a
        cancel a
        left a
        go
        ? a cancelled
        ? a retired
        ? sent cancel a | cancel a | retire a
    """,
    "a resumed job whose old executor missed the cancel is cancelled there after a restart of the service": RUNS
    + """
        cancel a
        resume a
        reopen a
        ? sent cancel a | cancel a
        left a
        go
        ? sent retire a | assign a 2xt4
    """,
    "a resumed job whose old executor is gone after a restart of the service goes on": RUNS
    + """
        cancel a
        resume a
        reopen
        ? a counts recoveries 0
        go
        ? sent cancel a | retire a | assign a 2xt4
    """,
    "a paused job that is resumed with a changed file begins a new life with it": RUNS
    + """
        pause a
        left a
        change a new.py
        ? a submitted
        go
        ? sent assign a nothing | retire a | assign a 2xt4
        ? a script new.py
        runs a
        ? a running
        ? a counts failures 0
    """,
    "a paused job that still saves is resumed with a changed file when it has left": RUNS
    + """
        pause a
        change a new.py
        ? a because waiting until its last processes have left their GPUs
        go
        ? sent assign a nothing
        left a
        go
        ? sent retire a | assign a 2xt4
        ? a script new.py
    """,
    "a paused job that is resumed with a changed file is told again to save after a restart of the service": RUNS
    + """
        pause a
        change a new.py
        reopen a=1
        ? sent assign a nothing | assign a nothing | assign a 2xt4
        left a
        go
        ? sent retire a | assign a 2xt4
    """,
    "a job that waits with a changed file goes on with it over a restart of the service": RUNS
    + """
        cancel a
        change a new.py
        reopen
        go
        ? sent cancel a | retire a | assign a 2xt4
        ? a script new.py
    """,
    "a job that failed a moment ago is resumed with a changed file at once": RUNS
    + """
        fail a
        change a new.py
        left a
        go
        ? sent retire a | assign a 2xt4
        ? a script new.py
    """,
    "a succeeded job that is requeued runs again": RUNS
    + """
        finish a
        left a
        go
        requeue a
        go
        ? sent retire a | assign a 2xt4
    """,
    "a job that is resumed is admitted anew, and measured where it was not": """
        submit a types=t4
        go
        cancel a
        ? a cancelled
        resume a
        ? sent profile a t4 | cancel a
        left a
        go
        ? a profiling
        ? sent retire a | profile a t4
    """,
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_a_verb_does_what_its_user_asked(story: str, tmp_path: Path) -> None:
    World(tmp_path, "1x t4:4").play(story)


def refusal(verb: Any, found: JobRecord) -> str:
    with pytest.raises(JobStateError) as refused:
        verb(found, 5.0)
    return str(refused.value)


def ended(phase: Phase) -> JobRecord:
    return end(running(A), phase, "so", 4.0).job


def test_a_verb_that_does_not_fit_is_refused_in_one_sentence() -> None:
    assert refusal(resume, running(A)) == "j-1 is not paused: it is running"
    assert refusal(resume, job()) == "j-1 is not paused: it is waiting"
    assert refusal(resume, ended(Phase.SUCCEEDED)) == (
        "j-1 has succeeded, so there is nothing to resume; "
        "`coadapt fork j-1` starts a new job from its last checkpoint"
    )
    assert refusal(pause, ended(Phase.FAILED)) == "j-1 has failed, so there is nothing to pause"
    assert refusal(pause, ended(Phase.CANCELLED)) == "j-1 has been cancelled, so there is nothing to pause"
    paused = pause(running(A), 5.0).job
    assert refusal(requeue, paused) == "j-1 is paused; `coadapt resume j-1` lets it take part again"


def test_a_program_that_may_not_start_again_is_not_stopped_by_pause_or_requeue() -> None:
    plain = JobSpec(name="j", command=["make"], elastic=False)
    runs = replace(running(A), spec=plain)
    told = "j-1 runs a program that may not be started again (restartable: false), so it cannot be"
    assert refusal(pause, runs) == f"{told} paused; `coadapt cancel j-1` ends it"
    assert refusal(requeue, runs) == f"{told} requeued; `coadapt cancel j-1` ends it"
    assert pause(job(spec=plain), 5.0).job.paused, "it has not begun"
    again = replace(running(A), spec=JobSpec(name="j", command=["make"], elastic=False, restartable=True))
    assert pause(again, 5.0).job.paused
    assert said(resume(end(runs, Phase.FAILED, "so", 4.0).job, 5.0)) == ["resumed by the user: it starts again"]


def changed(found: JobRecord, **fields: Any) -> Reaction:
    spec = JobSpec.model_validate({"name": "other", "script": "new.py", **fields})
    return resume_changed(found, 5.0, ChangedFile(spec, "package-2", "script-2"))


def test_an_ended_job_goes_on_with_a_changed_file_under_its_own_name() -> None:
    retired = replace(ended(Phase.FAILED), held=(), retired=True)
    found = changed(retired, args=["--lr", "0.2"])
    assert (found.job.spec.script, found.job.spec.args, found.job.spec.name) == ("new.py", ["--lr", "0.2"], "j")
    assert (found.job.package, found.job.script_key, found.job.life) == ("package-2", "script-2", 1)
    assert found.job.phase is Phase.SUBMITTED
    assert said(found) == [
        "resumed by the user with a changed job file: it goes on from its last checkpoint, or from the start "
        "without one"
    ]


def test_a_changed_file_counts_from_the_next_life_on_of_a_job_that_still_leaves() -> None:
    waiting = changed(ended(Phase.FAILED)).job
    assert (waiting.spec.script, waiting.life, waiting.renews) == (job().spec.script, 0, True)
    assert read_back(waiting) == waiting
    assert job_details(waiting, ())["spec"]["script"] == "new.py"
    anew = waiting.begun_again()
    assert (anew.spec.script, anew.package, anew.life, anew.renews, anew.changed) == (
        *("new.py", "package-2", 1, False),
        None,
    )


def test_the_last_of_several_changed_files_counts_also_if_the_job_was_cancelled_between() -> None:
    first = changed(ended(Phase.CANCELLED), args=["1"]).job
    second = changed(first, args=["2"])
    assert said(second) == ["resumed by the user with a changed job file"]
    cancelled = end(second.job, Phase.CANCELLED, "so", 6.0).job
    assert resume(replace(cancelled, held=(), retired=True), 7.0).job.spec.args == ["2"]
    assert resume(cancelled, 7.0).job.begun_again().spec.args == ["2"]


def test_a_changed_file_that_does_not_fit_is_refused_in_one_sentence() -> None:
    def refused(found: JobRecord, **fields: Any) -> str:
        with pytest.raises(JobStateError) as told:
            changed(found, **fields)
        return str(told.value)

    assert refused(running(A)) == (
        "j-1 is running; only a job that is paused or has ended goes on with a changed file, and "
        "`coadapt pause j-1` holds it"
    )
    assert refused(pause(running(A), 4.0).job, elastic=False).startswith("j-1 is a native job, and the file")
    gone = replace(ended(Phase.FAILED), held=(), retired=True)
    assert refused(gone, elastic=False) == "j-1 is a native job, and the file is of a plain one; submit it anew"
    assert refused(gone, training={"checkpoint": {"url": "s3://b"}}) == (
        "training.checkpoint.url: s3://b is not where the checkpoints of j-1 are; leave it as it was"
    )
    succeeded = replace(ended(Phase.SUCCEEDED), held=(), retired=True)
    assert refused(succeeded).startswith("j-1 has succeeded, so there is nothing to resume")


def test_what_is_so_already_changes_nothing() -> None:
    paused = pause(running(A), 5.0).job
    assert pause(paused, 6.0).job is paused
    waiting = job()
    assert requeue(waiting, 6.0).job is waiting


def test_a_repeated_verb_with_the_same_key_is_done_once(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS)
    assert world.cycle.orders.do("a-1", requeue, "key-1")
    world.play("left a\ngo\n? sent assign a nothing | assign a 2xt4")
    assert world.cycle.orders.do("a-1", requeue, "key-1"), "the answer was lost, and the client asks again"
    world.play("reopen a\n? sent")
    assert world.cycle.orders.do("a-1", requeue, "key-1")
    assert world.job("a").target
    assert world.cycle.orders.do("a-1", requeue, "key-2")
    assert not world.job("a").target


def test_a_paused_job_is_shown_as_such() -> None:
    leaving = pause(running(A), 5.0).job
    assert (status_of(leaving), wait_reason(leaving, None, None)) == (Status.LEAVING, "paused")
    paused = react(leaving, Released(leaving.sequence, (A,)), 6.0).job
    assert (status_of(paused), paused.phase, paused.state.evictions) == (Status.PAUSED, Phase.QUEUED, 0)
    row = job_row(paused, wait_reason(paused, None, None))
    assert (row["status"], row["reason"], row["wait_reason"]) == ("paused", "paused by the user", "paused")
    found = explain(paused, None, _no_policy(), None)
    assert (found["decision"], found["reason"]) == ("waiting", "paused")
    assert found["lines"] == ["j-1 is paused by the user"]
    assert status_of(resume(paused, 7.0).job) is Status.WAITING


def _no_policy() -> Any:
    """Stand for a policy that must not be asked."""
    return None


def test_nothing_that_an_old_executor_says_ends_or_moves_the_new_life() -> None:
    renewing = resume(ended(Phase.CANCELLED), 5.0).job
    for event in (JobFinished(), JobFailed("ValueError: no", "", 1)):
        assert react(renewing, event, 6.0).job == renewing
    gone = lose_everything(renewing, "its executor is gone", 6.0).job
    assert (gone.held, gone.phase, gone.state.recoveries) == ((), Phase.SUBMITTED, 0)


def test_events_of_another_life_are_passed_over(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "cancel a\nleft a\ngo\nresume a\ngo\nruns a\n? a running")
    held = world.job("a").held
    assert world.job("a").life == 1
    world.cycle.on_event("a-1", Released(0, (), everything=True), 0)
    world.cycle.on_event("a-1", JobFinished(), 0)
    assert (world.job("a").phase, world.job("a").held) == (Phase.RUNNING, held)


def test_a_new_life_has_a_folder_and_numbers_of_its_own(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "cancel a\nleft a\ngo")
    before = world.job("a")
    world.play("resume a")
    after = world.job("a")
    assert after.folder != before.folder
    assert after.sequence == before.sequence
    assert (after.state.submitted_s, after.state.finished_s) == (before.state.submitted_s, None)
    assert read_back(after) == after


def test_a_resumed_job_is_served_in_its_order_of_submission(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "submit b unprofiled\ncancel a\nleft a\ngo\n? a retired\nresume a")
    assert list(world.store.unretired) == ["a-1", "b-2"]
    world.play("cancel b\ngo\n? b retired")

    def requeued_in_vain() -> None:
        with world.store.together():
            world.play("requeue b")
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        requeued_in_vain()
    assert list(world.store.unretired) == ["a-1"]
    world.play("requeue b")
    assert list(world.store.unretired) == ["a-1", "b-2"]


def test_no_round_sees_a_paused_job(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "pause a\nleft a\nsubmit b unprofiled\ngo")
    (seen,) = world.policy.rounds[-1].jobs
    assert seen.id == "b-2"


def test_a_plan_made_before_a_job_was_paused_gives_it_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play("submit a unprofiled\nwish a t4-000:2")
    plan = world.policy.plan

    def pausing(round: Any) -> Any:
        found = plan(round)
        world.tell("pause", ["a"])
        return found

    world.policy.plan = pausing
    world.play("go 2\n? sent")
    assert world.job("a").target == ()


def test_a_requeued_job_says_what_it_left() -> None:
    requeued = requeue(running(A, B), 5.0)
    assert said(requeued) == ["requeued by the user: it leaves 2xt4"]
    assert requeued.job.stopped is Stopped.REQUEUED
    assert not requeued.job.target
    left = react(requeued.job, Released(requeued.job.sequence, (A, B)), 6.0)
    assert said(left) == ["training left 2xt4: requeued by the user"]
    assert left.job.state.evictions == 0
