"""What was used is told by team, user and GPU type: each GPU-hour once, at its price, to who may read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.slot import Slot
from coadapt.core.teams_file import from_values
from coadapt.core.usage import Usage, UsageOn
from coadapt.scheduler.changes.reactions import Reaction
from coadapt.scheduler.observers.gpu_time import without_training
from coadapt.scheduler.store.intervals import UsageInterval

from tests.support.api import Api
from tests.support.cycles import RUNS, World
from tests.support.records import A, B, job, running

HOUR = 3600.0


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    teams = {"vision": {"users": ["ann", "bob"]}, "speech": {"users": ["ann"]}}
    api.world.cycle.teams.apply(from_values({"teams": teams, "prices": {"a100": 3.0, "t4": 0.5}}), "ops", 0.0)
    yield api
    api.world.store.close()


def held(api: Api, job_id: str, gpu_type: str, gpus: int, hours: float, phase: str = "running") -> None:
    """Have a job hold GPUs until now."""
    store, now = api.world.store, api.world.clock.steady_s()
    interval = UsageInterval(job_id, now - hours * HOUR, None, gpu_type, gpus, 1, phase=phase)
    (store.hold_profile if phase == "profiling" else store.hold)(interval)
    store.release(job_id, now, phase)


def rows(api: Api, user: str = "ops", **query: Any) -> list[dict[str, Any]]:
    told = {"since_s": api.world.clock.wall_s() - 24 * HOUR, **query}
    found: list[dict[str, Any]] = api.ask("GET", "/v1/usage", user, params=told).json()
    return found


def test_hours_are_summed_by_what_is_asked_for(api: Api) -> None:
    one, two, three = api.job("ann", "a"), api.job("bob", "b"), api.job("ann", "c")
    held(api, one, "a100", 2, 3.0)
    held(api, two, "t4", 4, 1.0)
    held(api, two, "t4", 1, 0.5, "profiling")
    held(api, three, "t4", 1, 48.0)
    by_user = {row["user"]: row for row in rows(api, by=["user"])}
    assert [by_user[user]["trained_h"] for user in ("ann", "bob")] == pytest.approx([6.0 + 24.0, 4.0])
    assert by_user["bob"]["profiled_h"] == pytest.approx(0.5)
    assert by_user["ann"]["value_units"] == pytest.approx(6 * 3.0 + 24 * 0.5), "only what lies in the time counts"
    by_type = {(row["team"], row["type"]): row["trained_h"] for row in rows(api, by=["team", "type"])}
    assert by_type == pytest.approx({("vision", "a100"): 6.0, ("vision", "t4"): 28.0})
    assert [row["user"] for row in rows(api)] == ["ann", "bob"], "the most value units first"


def test_users_read_of_their_teams_only(api: Api) -> None:
    for user, name in (("ann", "a"), ("bob", "b")):
        held(api, api.job(user, name), "t4", 1, 1.0)
    api.world.cycle.teams.apply(from_values({"teams": {"speech": {"users": ["ann", "bob"]}}}), "ops", 0.0)
    assert [row["user"] for row in rows(api, "bob", by=["user"])] == ["bob"], "its team has other users now"
    assert len(rows(api, "vic", by=["user"])) == 2
    refused = api.ask("GET", "/v1/usage", "bob", params={"by": "node"})
    assert (refused.status_code, refused.json()["detail"]) == (422, "by.0: node is not one of team, user, type")


def test_what_stands_still_has_started_or_is_lost() -> None:
    before = replace(job(), held=(A, B), target=(A, B))
    assert without_training(before) == {("started", "t4"): 2}
    trains = running(A)
    assert without_training(replace(trains, held=(A, B))) == {("started", "t4"): 1}, "a part joins what trains"
    assert without_training(replace(trains, group=())) == {("lost", "t4"): 1}
    assert without_training(trains) == {}
    gone = Slot("n9", "l", (0,), "a100")
    assert without_training(replace(trains, group=(), target=(), held=(gone,))) == {("lost", "a100"): 1}


def test_starting_lost_and_idle_time_is_kept_by_day_over_a_restart(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4", debounce_s=0.0)
    world.clock.set_s = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp() - world.clock.now_s
    story = RUNS.replace("runs a", "after 3600\nruns a")
    world.play(story + "\nreopen a\nworkerlost a\ngo\nafter 1800\nruns a recovered\ngo")
    used = UsageOn(Usage(seconds=100.0, idle_s=90.0), Usage())
    world.cycle._records.apply(Reaction(replace(world.job("a"), usage={"t4": used})), world.clock.steady_s())
    with world.store.database.reading() as connection:
        found = connection.exec_driver_sql("select day, kind, gpu_type, gpu_s from gpu_time").all()
    assert {(day, kind) for day, kind, _, _ in found} == {("2026-11-30", "started"), ("2026-11-30", "idle")}
    sums = {kind: gpu_s for _, kind, _, gpu_s in found}
    assert sums["started"] == pytest.approx(2 * 3603.0, abs=10)
    assert sums["idle"] == 90.0
    world.store.close()
