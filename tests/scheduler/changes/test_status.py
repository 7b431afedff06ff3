"""`coadapt list` says what a job is doing, not what the scheduler may do with it, and when it may end."""

import pytest
from coadapt.core.job import JobSpec, JobState, Phase
from coadapt.core.reports import Progress, Report
from coadapt.core.slot import Slot
from coadapt.executor.protocol.job_events import Failing, JobFinished, ProfileFinished, Released, Reported, Running
from coadapt.scheduler.changes.reactions import claim, lose_everything, react, start_profile
from coadapt.scheduler.changes.status import POINTS, ends_s, status_of
from coadapt.scheduler.jobs.record import JobRecord, ProfileRun, Stopped
from coadapt.scheduler.views.job_views import job_row

from tests.support.stored_rows import read_back

A, B = (Slot(node, "l", (0,), "t4", emulated=True) for node in ("n1", "n2"))
SPEC = JobSpec(name="j", script="t.py")


def queued() -> JobRecord:
    return JobRecord("j-1", 1, SPEC, JobState(Phase.QUEUED))


def running(*slots: Slot) -> JobRecord:
    job = claim(queued(), slots, 1.0).job
    return react(job, Running(job.sequence, slots, warm=False), 2.0).job


def told(job: JobRecord) -> tuple[str, str]:
    row = job_row(read_back(job))
    return row["status"], row["reason"]


def stopped(why: Stopped) -> JobRecord:
    job = claim(running(A), (), 3.0, why).job
    assert status_of(job) == "leaving"
    return react(job, Released(job.sequence, (A,)), 4.0).job


def test_a_job_is_called_what_it_is_doing() -> None:
    new = JobRecord("j-1", 1, SPEC, JobState(reason="waiting for GPU type h100; the cluster has t4"))
    assert told(new) == ("waiting", "waiting for GPU type h100; the cluster has t4")
    profiling = JobRecord("j-1", 1, SPEC, JobState(Phase.PROFILING), profiles=(ProfileRun("t4"),))
    assert told(profiling) == ("waiting", "to be measured on t4")
    measuring = start_profile(profiling, "t4", A, 1.0).job
    assert told(measuring) == ("measuring", "being measured on t4")
    ended = react(measuring, ProfileFinished("t4", ok=True, sequence=1), 2.0).job
    assert told(ended)[0] == "waiting"
    assert told(queued())[0] == "waiting"
    assert told(claim(queued(), (A, B), 1.0).job) == ("starting", "starts on 2xt4")
    assert told(running(A)) == ("running", "")


def test_a_job_whose_gpus_went_to_others_is_evicted_and_starts_again() -> None:
    evicted = stopped(Stopped.EVICTED)
    assert told(evicted) == ("evicted", "other jobs have its GPUs")
    assert told(claim(evicted, (B,), 9.0).job) == ("starting", "starts on 1xt4")
    assert told(stopped(Stopped.DOWN))[0] == "waiting"


def test_a_job_that_is_tried_again_or_lost_its_workers_is_not_said_to_wait() -> None:
    failing = react(running(A), Failing("ValueError: no", 1), 3.0).job
    assert told(failing) == ("restarting", "the script failed (try 1): ValueError: no")
    starts = react(claim(queued(), (A,), 1.0).job, Failing("ValueError: no", 1), 3.0).job
    assert told(starts) == ("restarting", "the script failed (try 1): ValueError: no")
    lost = lose_everything(running(A), "its executor was restarted", 5.0).job
    assert told(lost) == ("waiting", "its executor was restarted")


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED])
def test_a_job_that_ended_is_called_by_its_end(phase: Phase) -> None:
    assert status_of(JobRecord("j-1", 1, SPEC, JobState(phase))) == phase.value


# --- when it may end -------------------------------------------------------------------------------------


def reports(job: JobRecord, *points: tuple[float, float]) -> JobRecord:
    for now, fraction in points:
        report = Report(
            1, "t4", 1, len(job.group), (), None, None, 8, 8, 0, 0.1, 1.0, Progress(0, 3, fraction, 1, 8, 8.0)
        )
        job = react(job, Reported(report, None), now).job
    return read_back(job)


def test_the_end_follows_from_the_rate_of_the_last_reports() -> None:
    assert ends_s(running(A)) is None
    assert ends_s(reports(running(A), (12.0, 0.1))) == pytest.approx(102.0)
    assert ends_s(reports(running(A), (12.0, 0.1), (32.0, 0.5))) == pytest.approx(62.0)


def test_no_end_is_told_where_nothing_is_known_of_the_rate() -> None:
    assert ends_s(reports(running(A), (12.0, 0.0))) is None
    back = reports(running(A), (12.0, 0.4), (32.0, 0.6))
    assert ends_s(claim(back, (), 33.0).job) is None
    failing = react(back, Failing("ValueError: no", 1), 34.0).job
    assert ends_s(failing) is None
    again = react(failing, Running(failing.sequence, (B,), warm=False, pause_s=3.0, retried=True), 40.0).job
    assert ends_s(reports(again, (50.0, 0.5))) is None, "it is behind where it was"
    assert ends_s(react(back, JobFinished(), 60.0).job) is None


def test_other_gpus_have_another_rate() -> None:
    job = reports(running(A), (12.0, 0.1), (102.0, 0.4))
    grown = claim(job, (A, B), 102.0).job
    grown = react(grown, Running(grown.sequence, (A, B), warm=True, pause_s=0.1), 102.0).job
    assert ends_s(reports(grown, (112.0, 0.5))) == pytest.approx(162.0)


def test_what_is_remembered_of_a_long_job_is_little_and_recent() -> None:
    early = [(2.0 + i, i / 100_000) for i in range(1000)]
    late = [(1002.0 + 10 * i, 0.01 + i / 1000) for i in range(100)]
    job = reports(running(A), *early, *late)
    assert len(job.reached) <= POINTS
    assert ends_s(job) == pytest.approx(1992.0 + (1 - 0.109) * 10_000)
