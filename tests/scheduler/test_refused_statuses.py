"""A user sees how many statuses of a command were not taken, and why the last one was not."""

from __future__ import annotations

from dataclasses import replace

from coadapt.executor.protocol.job_events import StatusesRefused
from coadapt.scheduler.changes.reactions import react
from coadapt.scheduler.changes.upkeep import is_news
from coadapt.scheduler.jobs.record import Refusals
from coadapt.scheduler.store.record_rows import record
from coadapt.scheduler.views.job_views import job_details

from tests.support.records import A, running
from tests.support.stored_rows import read_back, rows_of


def test_what_is_told_again_counts_once_also_after_a_restart_of_service_or_executor() -> None:
    event = StatusesRefused("x", 3, "torn")
    job = react(running(A), event, 5.0).job
    again = react(read_back(job), event, 6.0)
    assert again.job == job
    more = react(job, StatusesRefused("x", 5, "foreign"), 7.0).job
    assert job_details(more, [])["refused_statuses"] == {"count": 5, "last": "foreign"}
    restarted = react(more, StatusesRefused("y", 2, "no number"), 8.0).job
    assert job_details(restarted, [])["refused_statuses"] == {"count": 7, "last": "no number"}
    assert not is_news(job, restarted), "no round waits for it"


def test_nothing_is_said_where_every_status_was_taken_or_a_record_is_of_an_earlier_version() -> None:
    job = running(A)
    assert job_details(job, [])["refused_statuses"] is None
    rows = rows_of(job)
    part = '"refusals":{"count":0,"last":"","told":["",0]}'
    assert f",{part}" in rows.report
    assert record(replace(rows, report=rows.report.replace(f",{part}", ""))) == job
    assert job.refusals == Refusals()
