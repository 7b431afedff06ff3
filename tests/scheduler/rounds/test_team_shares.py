"""What live rounds go by of teams, from records and the store, also after a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.job import JobSpec, Phase
from coadapt.core.teams import Team, Teams
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.rounds.team_shares import LEAST, TeamShares
from coadapt.scheduler.store.intervals import UsageInterval
from coadapt.scheduler.store.store import Store

TEAMS = Teams(teams={"v": Team(guarantee={"t4": 2}), "w": Team(default=True)}, lease_s=600.0, half_life_h=1.0)


def submitted(store: Store, team: str | None, key: str, **fields: object) -> JobRecord:
    spec = JobSpec.model_validate({"name": "job", "script": "train.py", "team": team, **fields})
    job, _ = store.submit(spec, 0.0, idempotency_key=key)
    return replace(job, state=replace(job.state, phase=Phase.RUNNING))


def test_without_teams_a_round_goes_by_none(tmp_path: Path) -> None:
    shares = TeamShares(Store(tmp_path / "jobs.sqlite"), dict)
    assert shares.now(None, [], (), 0.0) is None
    assert shares.now(Teams(), [], (), 0.0) is None


def test_without_teams_only_jobs_that_count_otherwise_are_named(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    jobs = [
        submitted(store, None, "a", priority="urgent"),
        submitted(store, None, "b"),
        submitted(store, None, "c"),
    ]
    shares = TeamShares(store, dict)
    found = shares.now(None, jobs, {jobs[2].id}, 0.0)
    assert found is not None
    assert found.factor == {jobs[0].id: 4.0, jobs[2].id: LEAST}
    assert not found.terms
    assert shares.now(None, jobs[1:], (), 0.0) is None


def test_jobs_count_for_their_team_with_their_priority(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    jobs = [submitted(store, "v", "a", priority="high"), submitted(store, None, "b")]
    found = TeamShares(store, dict).now(TEAMS, jobs, (), 0.0)
    assert found is not None
    assert found.team == {jobs[0].id: "v", jobs[1].id: "w"}
    assert found.factor == {jobs[0].id: 2.0, jobs[1].id: 1.0}


def test_who_is_over_a_month_has_only_what_nobody_else_wants(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    job = submitted(store, "v", "a")
    found = TeamShares(store, dict).now(TEAMS, [job], {job.id}, 0.0)
    assert found is not None
    assert found.factor[job.id] == pytest.approx(LEAST)


def test_use_comes_back_from_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    jobs = [submitted(store, "v", "a"), submitted(store, "w", "b")]
    for job in jobs[:1]:
        store.hold(UsageInterval(job.id, 0.0, None, "t4", 4, 1))
    found = TeamShares(store, dict).now(TEAMS, jobs, (), 3600.0)
    assert found is not None
    assert found.factor[jobs[0].id] < 1.0 < found.factor[jobs[1].id]
