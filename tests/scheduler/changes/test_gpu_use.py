"""The record of a job keeps how much its GPUs were used, and its owner is told once if they are idle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from coadapt.core.events import EventKind
from coadapt.core.expected import UNKNOWN
from coadapt.core.job import Phase
from coadapt.core.settings import Settings
from coadapt.core.usage import Mean, Usage
from coadapt.executor.protocol.job_events import Reported, Used
from coadapt.policies.contract.round import JobView
from coadapt.scheduler.changes.reactions import end, react
from coadapt.scheduler.changes.upkeep import is_news
from coadapt.scheduler.rounds.snapshot import job_view
from coadapt.scheduler.store.record_rows import record
from coadapt.scheduler.store.store import Store
from coadapt.scheduler.views.job_views import job_details, job_row

from tests.support.records import REPORT, A, B, running, said
from tests.support.stored_rows import read_back, rows_of


def usage(util: float | None, minutes: float, *, idle: bool = False, emulated: bool = False) -> Usage:
    seconds = 60.0 * minutes
    return Usage(
        seconds,
        gpu=Mean.of(util, seconds),
        gib=Mean.of(8.0, seconds),
        idle_s=seconds if idle else 0.0,
        emulated=emulated,
    )


def used(number: int, executor: str = "x", **by_type: Usage) -> Used:
    return Used(executor, number, by_type)


def test_use_is_kept_by_gpu_type_whether_it_comes_with_a_report_or_not() -> None:
    job = react(running(A, B), Reported(REPORT, None, used=used(1, t4=usage(0.5, 1))), 100.0).job
    job = react(job, used(2, t4=usage(1.0, 1), a100=usage(0.25, 2)), 130.0).job
    row = job_row(job)
    assert {t: use["mean"]["gpu_util"] for t, use in row["usage"].items()} == {"a100": 0.25, "t4": 0.75}
    assert row["usage"]["t4"]["mean"]["memory_gib"] == 8.0
    assert row["usage"]["t4"]["mean"]["memory_util"] is None
    assert 0.75 < (row["usage"]["t4"]["recent"]["gpu_util"] or 0) < 1.0
    assert row["usage"]["t4"]["gpu_s"] == 120.0
    assert row["idle_gpu_minutes"] == 0.0


def test_policies_see_how_much_a_job_uses_its_gpus(tmp_path: Path) -> None:
    job = react(running(A), used(1, t4=usage(0.5, 1)), 100.0).job
    view = job_view(job, None, UNKNOWN, Store(tmp_path / "jobs.sqlite"), Settings(), 100.0)
    assert view.usage["t4"].mean.gpu_util == view.usage["t4"].recent.gpu_util == 0.5
    assert "a100" not in view.usage
    assert JobView("j-2", job.spec).usage == {}


def test_what_is_told_again_counts_once_also_after_a_restart_of_the_service() -> None:
    event = used(3, t4=usage(0.5, 1))
    job = react(running(A), event, 100.0).job
    again = react(read_back(job), event, 160.0)
    assert again.job == job
    restarted = react(job, used(1, executor="y", t4=usage(0.5, 1)), 200.0).job
    assert restarted.usage["t4"].mean.seconds == 120.0, "an executor that was restarted counts from 1 again"


def test_a_record_of_an_earlier_version_knows_of_no_use() -> None:
    job = running(A)
    rows = rows_of(job)
    text = rows.report
    for name in ('"usage":{},', '"usage_told":["",0],', '"told_idle":false,'):
        assert name in text
        text = text.replace(name, "")
    assert record(replace(rows, report=text)) == job
    assert job_row(job)["usage"] == {}
    assert job_row(job)["idle_gpu_minutes"] is None


def test_gpus_of_unknown_use_are_shown_as_unknown() -> None:
    job = react(running(A), used(1, t4=usage(None, 5)), 100.0).job
    row = job_row(job)
    assert row["usage"]["t4"]["mean"]["gpu_util"] is None
    assert row["usage"]["t4"]["mean"]["memory_gib"] == 8.0
    assert row["idle_gpu_minutes"] is None


def test_idle_gpus_are_told_once_when_that_becomes_notable() -> None:
    job, told = running(A, B), []
    for number in range(1, 8):
        reaction = react(job, used(number, t4=usage(0.01, 4, idle=True)), 60.0 * number)
        job = reaction.job
        told += [(number, event.kind) for event in reaction.events]
        if reaction.events:
            assert said(reaction) == [
                "its GPUs are idle: for 12 GPU-minutes so far it held t4 and used it less than 5% of the time"
            ]
    assert told == [(3, EventKind.IDLE)]
    assert job_row(job)["idle_gpu_minutes"] == 28.0


def test_a_report_tells_of_idle_gpus_too() -> None:
    reaction = react(running(A), Reported(REPORT, None, used=used(1, t4=usage(0.0, 20, idle=True))), 9.0)
    assert [event.kind for event in reaction.events] == [EventKind.IDLE]


def test_use_gives_the_scheduler_nothing_to_do() -> None:
    before = running(A)
    after = react(before, used(1, t4=usage(0.0, 60, idle=True)), 9.0).job
    assert after != before
    assert not is_news(before, after)


def test_an_ended_job_keeps_what_was_known_and_learns_no_more() -> None:
    job = react(running(A), used(1, t4=usage(0.5, 1, emulated=True)), 9.0).job
    ended = end(job, Phase.SUCCEEDED, "trained", 10.0).job
    assert react(ended, used(2, t4=usage(0.5, 1)), 11.0).job == ended
    assert job_details(ended, [])["usage"]["t4"]["emulated"]
