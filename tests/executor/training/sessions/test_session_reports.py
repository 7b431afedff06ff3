"""The executor hears of a training by heartbeats of each replica, and by reports of replica 0 alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.core.reports import Report
from coadapt.executor.protocol.messages import Heartbeat
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.sessions import session_reports
from coadapt.executor.training.sessions.session_reports import HEARTBEAT_INTERVAL_S, REPORT_FIRST_S

from tests.support.ranks import on_ranks
from tests.support.sessions import Managed, Script


def test_heartbeats_come_each_second_and_reports_ever_more_rarely_up_to_the_jobs_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now_s=0.0)
    monkeypatch.setattr(session_reports, "time", SimpleNamespace(monotonic=lambda: clock.now_s))

    def act(group: Group) -> tuple[int, list[float]]:
        managed = Managed(Script(), report_interval_s=6.0)
        managed.session.peers.group = group
        reported = []
        while clock.now_s < 20.0:
            clock.now_s += 0.5
            before = len(managed.heard(Report))
            managed.session.reports.tell(1)
            if len(managed.heard(Report)) > before:
                reported.append(clock.now_s)
        return len(managed.heard(Heartbeat)), reported

    beats, reported = on_ranks(1, act)[0]
    assert beats == 20 / HEARTBEAT_INTERVAL_S
    assert reported == [REPORT_FIRST_S, 6.0, 12.0, 18.0]


def test_replica_0_reports_for_all_and_every_one_is_heard_of() -> None:
    def act(group: Group) -> list[int]:
        managed = Managed(Script())
        managed.session.peers.group = group
        managed.session.reports.send()
        return [len(managed.heard(Report)), len(managed.heard(Heartbeat))]

    assert on_ranks(2, act) == [[1, 0], [0, 0]]


def test_a_report_says_how_the_job_trains_and_how_far_it_is() -> None:
    def act(group: Group) -> Report:
        script = Script(samples=16)
        managed = Managed(script, max_batch_size=64).started(BatchPlan(2, 1, 4))
        session = managed.session
        for epoch in session.epochs(4):
            if epoch == 2:
                session.reports.send()
                break
            for batch in script.loader:
                script.train(batch)
            session.report({"loss": 0.5}, {})
        return managed.heard(Report)[-1]

    report: Any = on_ranks(1, act)[0]
    assert (report.generation, report.replicas, report.nodes) == (1, 1, 1)
    assert (report.batch_size, report.local_bsz, report.accumulation, report.lr) == (4, 2, 1, 0.001)
    assert (report.progress.epoch, report.progress.epochs, report.progress.steps) == (2, 4, 8)
    assert report.progress.fraction == 0.5
    assert report.metrics == {"loss": 0.5}
    assert (report.measured_at["loss"].epoch, report.measured_at["loss"].samples) == (2, 32)
    assert not report.habits.one_pass


def test_a_loop_in_steps_is_told_by_its_steps() -> None:
    def act(group: Group) -> Report:
        script = Script(samples=16)
        managed = Managed(script).started()
        for _, batch in zip(managed.session.steps(8), script.loader, strict=False):
            script.train(batch)
        managed.session.reports.send()
        return managed.heard(Report)[-1]

    progress = on_ranks(1, act)[0].progress
    assert (progress.epochs, progress.fraction, progress.steps) == (None, 0.5, 4)
