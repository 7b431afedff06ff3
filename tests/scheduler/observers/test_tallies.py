"""What jobs trained on is counted once, whatever is done again, and with what it was worth."""

from __future__ import annotations

from dataclasses import replace

from coadapt.core.reports import Progress
from coadapt.estimators.measurements import Measurements
from coadapt.executor.protocol.job_events import Reported
from coadapt.scheduler.changes.reactions import react
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.observers.hooks import Change
from coadapt.scheduler.observers.tallies import Tallies
from coadapt.scheduler.runtime.clock import SystemClock

from tests.support.records import REPORT, A, running


def reported(job: JobRecord, samples: int, progress: float) -> JobRecord:
    report = replace(REPORT, progress=Progress(0, 10, 0.0, samples // 64, samples, progress))
    return react(job, Reported(report, Measurements(), None), 10.0).job


def counted(tallies: Tallies, job: JobRecord, *reports: tuple[int, float]) -> JobRecord:
    for samples, progress in reports:
        after = reported(job, samples, progress)
        tallies.changed(Change(job, after, 10.0, None))
        job = after
    return job


def sums(tallies: Tallies) -> tuple[float, float]:
    told = tallies.told()
    return told["samples"], told["progress_samples"]


def test_samples_and_their_worth_grow_with_reports_and_not_with_what_is_done_again() -> None:
    tallies, job = Tallies(SystemClock(), ()), running(A)
    job = counted(tallies, job, (640, 600.0), (1280, 1000.0))
    assert sums(tallies) == (640, 400)
    job = counted(tallies, job, (960, 800.0), (1280, 1000.0), (1600, 1150.0))
    assert sums(tallies) == (960, 550), "it went on from a checkpoint at 960 samples"


def test_what_was_done_before_this_process_or_this_life_is_not_counted() -> None:
    job = reported(running(A), 6400, 5000.0)
    tallies = Tallies(SystemClock(), (job,))
    job = counted(tallies, job, (7040, 5400.0))
    assert sums(tallies) == (640, 400)
    again = replace(job, life=job.life + 1)
    again = counted(tallies, again, (320, 320.0), (640, 640.0))
    assert sums(tallies) == (960, 720)


def test_a_job_that_is_retired_takes_nothing_away() -> None:
    tallies, job = Tallies(SystemClock(), ()), running(A)
    tallies.retired(counted(tallies, job, (640, 600.0), (1280, 1000.0)))
    assert sums(tallies) == (640, 400)
