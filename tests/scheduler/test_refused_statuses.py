"""A user sees how many statuses of a command were not taken, and why the last one was not."""

from __future__ import annotations

from coadapt.executor.protocol.job_events import StatusesRefused
from coadapt.scheduler.presenters import job_details
from coadapt.scheduler.reactions import react
from coadapt.scheduler.record import JobRecord, Refusals
from coadapt.scheduler.upkeep import is_news

from tests.support.records import A, running


def test_what_is_told_again_counts_once_also_after_a_restart_of_service_or_executor() -> None:
    event = StatusesRefused("x", 3, "torn")
    job = react(running(A), event, 5.0).job
    again = react(JobRecord.from_json(job.to_json()), event, 6.0)
    assert again.job == job
    more = react(job, StatusesRefused("x", 5, "foreign"), 7.0).job
    assert job_details(more, [])["refused_statuses"] == {"count": 5, "last": "foreign"}
    restarted = react(more, StatusesRefused("y", 2, "no number"), 8.0).job
    assert job_details(restarted, [])["refused_statuses"] == {"count": 7, "last": "no number"}
    assert not is_news(job, restarted), "no round waits for it"


def test_nothing_is_said_where_every_status_was_taken_or_a_record_is_of_an_earlier_version() -> None:
    job = running(A)
    assert job_details(job, [])["refused_statuses"] is None
    text = job.to_json()
    part = '"refusals":{"count":0,"last":"","told":["",0]}'
    assert f",{part}" in text
    assert JobRecord.from_json(text.replace(f",{part}", "")) == job
    assert job.refusals == Refusals()
