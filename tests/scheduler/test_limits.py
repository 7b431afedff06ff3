"""Limits in rounds and at submission: what a policy wants beyond them is not there, and users are told why."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from coadapt.core.decisions import WaitReason
from coadapt.core.job_limits import JobLimitError
from coadapt.core.teams_file import from_values
from coadapt.policies.catalogue import make_policy
from coadapt.scheduler.views.explaining import explain
from coadapt.scheduler.views.waiting import wait_reason

from tests.support.api import Api
from tests.support.cycles import World

WALL_S = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, "1x t4:8", planner=make_policy("fifo"), debounce_s=0.0)
    yield world
    world.store.close()


def limit(world: World, **limits: object) -> None:
    world.cycle.teams.apply(from_values({"user_limits": limits}), "ops", world.clock.steady_s())


def test_a_job_beyond_the_running_ones_waits_and_is_told_why(world: World) -> None:
    limit(world, running=1)
    world.play("submit a unprofiled\nsubmit b unprofiled\ngo\n? sent assign a 1xt4\nruns a\nafter 70\ngo\n? sent")
    job, last = world.job("b"), world.cycle.last_round
    assert wait_reason(job, last, world.all) is WaitReason.LIMIT_RUNNING
    found = explain(job, last, world.planner, world.all)
    assert found["reason"] == "limit_running"
    assert found["lines"] == ["b-2 waits: user nobody has 1 running job, which is its limit"]
    world.play("finish a\nleft a\nafter 70\ngo\n? sent retire a | assign b 1xt4")


def test_an_elastic_policy_gives_no_user_more_gpus_than_its_limit(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:8", planner=make_policy("coadapt"), debounce_s=0.0)
    limit(world, gpus={"t4": 3})
    world.play("submit a unprofiled\nsubmit b unprofiled\nsubmit c unprofiled\nsubmit d unprofiled\ngo")
    held = [sum(slot.gpus for slot in world.job(name).target) for name in "abcd"]
    assert (sum(held), held.count(0)) == (3, 1)
    last = world.cycle.last_round
    waiting = world.job("abcd"[held.index(0)])
    assert wait_reason(waiting, last, world.all) is WaitReason.LIMIT_GPUS
    world.store.close()


def test_the_101st_job_of_100_is_refused_and_a_repeated_one_is_not(tmp_path: Path) -> None:
    api = Api(tmp_path)
    limit(api.world, queued=100)
    for number in range(100):
        api.job("ann", f"a{number}")
    with pytest.raises(JobLimitError, match=r"limits\.queued: user ann has 100 queued jobs, and it would exceed"):
        api.job("ann", "b")
    assert api.job("ann", "a99") == "a99-100"
    assert api.job("bob", "b") == "b-101"
    api.service.cancel("a3-4")
    assert api.job("ann", "b2") == "b2-102", "one has ended"
    with pytest.raises(JobLimitError, match=r"limits\.queued"):
        api.service.change("a3-4", "resume", "k")
    api.world.store.close()


def test_a_months_value_units_are_told_at_80_percent_and_bind_once_they_are_used_up(world: World) -> None:
    world.clock.set_s = WALL_S - world.clock.now_s
    world.cycle.teams.apply(
        from_values({"prices": {"t4": 2.0}, "user_limits": {"value_units_a_month": 10.0}}), "ops", 0.0
    )
    world.play("submit a unprofiled\ngo\nruns a")
    for hours, said in ((3.9, []), (0.2, ["80"]), (1.0, ["80", "all"])):
        world.play(f"after {hours * 3600}\ngo")
        told = [e.data["text"] for e in world.store.events(world.ids["a"]) if e.kind.value == "budget"]
        assert ["all" if "until its end" in text else "80" for text in told] == said
    world.play("submit b unprofiled\nafter 70\ngo")
    assert world.cycle._admission.least == {"a-1", "b-2"}
    world.play("reopen a=1\nafter 70\ngo")
    told = [e for e in world.store.events(world.ids["a"]) if e.kind.value == "budget"]
    assert len(told) == 2, "nobody is told twice, also over a restart"
    world.clock.set_s = WALL_S + 12 * 3600 - world.clock.now_s - 60
    world.play("after 70\ngo")
    assert world.cycle._admission.least == frozenset(), "another month has begun"
