"""What upkeep does with a job in its phase, when time alone may change it, and which changes are news."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from coadapt.core.job import Phase
from coadapt.core.settings import Settings
from coadapt.executor.protocol.job_events import Reported
from coadapt.scheduler.changes.reactions import claim, end, react, start_profile
from coadapt.scheduler.changes.upkeep import due_s, is_news, retire, steps
from coadapt.scheduler.jobs.record import JobRecord, ProfileRun
from coadapt.scheduler.nodes.node_view import NodesSnapshot

from tests.support.cycles import nodes_of
from tests.support.records import CLUSTER, REPORT, A, B, finished, job, measured, profiling, running

SETTINGS = Settings(profile_patience_s=300.0, profile_timeout_s=600.0, release_timeout_s=120.0)


def kept(found: JobRecord, nodes: NodesSnapshot, now: float) -> JobRecord:
    """Return what one look makes of a job; nobody else has measured anything."""
    for step in steps(found, nodes, SETTINGS, lambda known: known, now):
        found = step(found).job
    return found


def test_one_look_at_a_submitted_job_admits_it_and_one_more_changes_nothing() -> None:
    admitted = kept(job(Phase.SUBMITTED), nodes_of(CLUSTER), 5.0)
    assert admitted.phase is Phase.PROFILING
    assert kept(admitted, nodes_of(CLUSTER), 6.0) == admitted


def test_one_look_ends_all_runs_that_are_late_and_then_queues_or_fails_the_job() -> None:
    runs = (ProfileRun("t4", A, 1.0, sequence=1), ProfileRun("a100", replace(A, gpu_type="a100"), 1.0, sequence=2))
    late = kept(job(Phase.PROFILING, profiles=runs), nodes_of(CLUSTER), 700.0)
    assert (late.phase, [run.ok for run in late.profiles]) == (Phase.FAILED, [False, False])
    known = job(Phase.PROFILING, profiles=runs, measurements=measured("t4"))
    assert kept(known, nodes_of(CLUSTER), 700.0).phase is Phase.QUEUED


def test_slots_on_nodes_that_are_gone_are_struck_out_first() -> None:
    ended = end(running(A), Phase.CANCELLED, "cancelled by the user", 5.0).job
    assert not kept(ended, replace(nodes_of(CLUSTER), alive=frozenset({"n1"})), 6.0).retired
    gone = kept(ended, replace(nodes_of(CLUSTER), alive=frozenset()), 6.0)
    assert (gone.retired, gone.held) == (True, ())


def test_an_ended_job_is_retired_when_its_slots_are_free_or_have_not_been_in_time() -> None:
    ended = end(running(A), Phase.CANCELLED, "cancelled by the user", 5.0).job
    assert not retire(ended, SETTINGS, 125.0).job.retired
    late = retire(ended, SETTINGS, 125.5)
    assert (late.job.retired, late.job.held, late.round) == (True, (), True)
    never_ran = end(job(), Phase.CANCELLED, "cancelled by the user", 5.0).job
    assert retire(never_ran, SETTINGS, 5.0).job.retired
    assert not retire(late.job, SETTINGS, 500.0).round, "once is enough"


STARTED = start_profile(profiling(ProfileRun("t4")), "t4", A, 10.0).job
ENDED_RUN = react(STARTED, finished(STARTED, "t4", ok=True), 20.0).job


@pytest.mark.parametrize(
    ("found", "at_s"),
    [
        (running(A), math.inf),
        (claim(running(A, B), (A,), 10.0).job, 130.0),
        (profiling(ProfileRun("t4")), 300.0),
        (replace(STARTED, state=replace(STARTED.state, phase=Phase.RUNNING)), 610.0),
        (replace(ENDED_RUN, state=replace(ENDED_RUN.state, phase=Phase.RUNNING)), 140.0),
        (end(running(A), Phase.CANCELLED, "cancelled by the user", 5.0).job, 125.0),
        (replace(end(running(A), Phase.CANCELLED, "over", 5.0).job, retired=True), math.inf),
    ],
    ids=["trains", "leaves a GPU", "is measured", "a run", "a run that is over", "ended", "retired"],
)
def test_time_alone_may_change_a_job_from(found: JobRecord, at_s: float) -> None:
    assert due_s(found, SETTINGS) == at_s


def test_reports_of_training_are_no_news_but_a_new_gpu_type_or_an_open_run_is() -> None:
    before = replace(running(A), measurements=measured("t4"))
    after = react(before, Reported(REPORT, measured("t4")), 3.0).job
    assert after != before
    assert not is_news(before, after)
    assert is_news(before, replace(after, measurements=measured("t4", "a100")))
    assert is_news(before, replace(after, profiles=(ProfileRun("a100"),)))
    assert is_news(before, claim(before, (A, B), 4.0).job)
