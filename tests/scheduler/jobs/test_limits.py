"""Limits of users and teams: no round can exceed them, what is held stays, and each refusal says why."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from coadapt.core.decisions import WaitReason
from coadapt.core.job import JobSpec, Phase
from coadapt.core.slot import Slot
from coadapt.core.teams import Priority
from coadapt.core.teams_file import from_values
from coadapt.scheduler.jobs.limits import (
    EVERYTHING,
    admission,
    budget_notes,
    groups_of,
    limited,
    queue_refusal,
)
from coadapt.scheduler.jobs.record import JobRecord
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.records import job

TYPES = ("a100", "t4")


def of(
    number: int, owner: str = "ada", holds: int = 0, gpu_type: str = "t4", team: str | None = None, **more: Any
) -> JobRecord:
    """Return a job of a user that holds so many GPUs of a type; `more`: resources."""
    spec = JobSpec.model_validate({"name": "j", "script": "t.py", "team": team, "resources": more})
    slots = tuple(Slot("n1", "l", (at,), gpu_type) for at in range(holds))
    phase = Phase.RUNNING if holds else Phase.QUEUED
    return replace(
        job(phase), id=f"j-{number}", number=number, owner=owner, spec=spec, target=slots, held=slots, group=slots
    )


def teams(users: dict[str, Any] | None = None, **named: dict[str, Any]) -> Any:
    """Return teams with these limits of each user, and of teams by name."""
    every = {name: {"users": ["ada", "bob"], "limits": limits} for name, limits in named.items()}
    return from_values({"teams": every, "user_limits": users or {}})


def admitted(jobs: list[JobRecord], found: Any, spent: Any = None) -> Any:
    return admission(jobs, found, spent or {}, lambda job: job.spec.resources.gpu_types or TYPES)


def test_without_limits_everything_is_admitted() -> None:
    assert admitted([of(1)], None) is EVERYTHING
    assert admitted([of(1)], teams(vision={})) is EVERYTHING
    assert not limited(teams(vision={}))


def test_the_101st_queued_job_of_100_is_refused_in_one_sentence() -> None:
    found = teams({"queued": 100})
    jobs = [of(n) for n in range(99)] + [of(200, holds=1), of(201, owner="bob"), replace(of(202), paused=True)]
    assert queue_refusal("ada", None, jobs[:-1], found) == ""
    assert queue_refusal("ada", None, jobs, found) == (
        "limits.queued: user ada has 100 queued jobs, and it would exceed its 100; "
        "one that starts or ends makes room"
    )
    assert queue_refusal("bob", None, jobs, found) == ""


def test_a_teams_queue_is_that_of_all_its_users() -> None:
    found = teams(vision={"queued": 2})
    jobs = [of(1, team="vision"), of(2, owner="bob", team="vision")]
    refused = queue_refusal("ada", "vision", jobs, found)
    assert refused.startswith("limits.queued: team vision has 2 queued jobs")
    assert queue_refusal("ada", "vision", jobs[:1], found, more=2).startswith("limits.queued: team vision has 1")


def test_running_jobs_stay_and_others_come_by_priority_as_there_is_room() -> None:
    high = replace(of(3), spec=of(3).spec.model_copy(update={"priority": Priority.HIGH}))
    bumped = replace(of(4), bumped=5.0)
    jobs = [of(1), of(2, holds=1), high, bumped]
    for most, out in ((1, {"j-1", "j-3", "j-4"}), (2, {"j-1", "j-3"}), (3, {"j-1"}), (4, set())):
        found = admitted(jobs, teams({"running": most}))
        assert set(found.held_out) == out
        assert {one.reason for one in found.held_out.values()} <= {WaitReason.LIMIT_RUNNING}
    assert admitted(jobs, teams({"running": 1})).held_out["j-1"].told == (
        "user ada has 1 running job, which is its limit"
    )


def test_gpus_of_a_type_are_dealt_so_that_what_a_job_holds_stays() -> None:
    found = admitted([of(1, holds=3), of(2), of(3)], teams({"gpus": {"t4": 8}}))
    assert not found.held_out
    assert sum(most["t4"] for most in found.most.values()) == 8
    assert found.most["j-1"]["t4"] >= 3
    assert "a100" not in found.most["j-1"], "of another type there is no limit"


def test_a_job_that_may_have_nothing_else_waits_for_its_limit() -> None:
    jobs = [of(1, holds=2, gpu_types=["t4"]), of(2, gpu_types=["t4"]), of(3, min_gpus=2, max_gpus=4)]
    found = admitted(jobs, teams(vision={}, users={"gpus": {"t4": 2}}))
    assert {id: one.reason for id, one in found.held_out.items()} == {"j-2": WaitReason.LIMIT_GPUS}
    assert found.held_out["j-2"].told == "user ada has as many GPUs of t4 as its limit allows"
    assert found.most == {"j-1": {"t4": 2}, "j-3": {"t4": 0}}, "it may still have an a100"


def test_a_lower_limit_takes_from_the_newest_first() -> None:
    jobs = [of(1, holds=2, gpu_types=["t4"]), of(2, holds=2, gpu_types=["t4"])]
    found = admitted(jobs, teams({"gpus": {"t4": 3}}))
    assert {id: most["t4"] for id, most in found.most.items()} == {"j-1": 2, "j-2": 1}


LIMITS = st.dictionaries(st.sampled_from(TYPES), st.integers(0, 12), max_size=2)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_plan_within_what_is_dealt_exceeds_a_limit(data: st.DataObject) -> None:
    def limits() -> dict[str, Any]:
        return {"gpus": data.draw(LIMITS), "running": data.draw(st.none() | st.integers(0, 4))}

    found = teams(limits(), vision=limits(), speech=limits())
    jobs = [
        of(
            n,
            data.draw(st.sampled_from(["ada", "bob"])),
            data.draw(st.integers(0, 3)),
            data.draw(st.sampled_from(TYPES)),
            data.draw(st.sampled_from(["vision", "speech"])),
            min_gpus=data.draw(st.integers(1, 3)),
            max_gpus=8,
        )
        for n in range(data.draw(st.integers(1, 8)))
    ]
    result = admitted(jobs, found)
    had, running = Counter[Any](), Counter[Any]()
    for one in jobs:
        if one.id in result.held_out:
            continue
        for group, limit in groups_of(one.owner, one.spec.team, found).items():
            running[group] += 1
            for gpu_type in limit.gpus:
                had[group, gpu_type] += result.most[one.id][gpu_type]
    for group, limit in [both for one in jobs for both in groups_of(one.owner, one.spec.team, found).items()]:
        assert limit.running is None or running[group] <= limit.running
        assert all(had[group, gpu_type] <= most for gpu_type, most in limit.gpus.items())


def test_beyond_a_months_units_a_job_starts_only_where_nobody_waits() -> None:
    found = teams({"value_units_a_month": 10.0})
    spent = {("user", "ada"): 10.0, ("user", "bob"): 9.9}
    mine, theirs = of(1, gpu_types=["t4"]), of(2, owner="bob")
    alone = admitted([mine], found, spent)
    assert (alone.held_out, alone.least) == ({}, {"j-1"})
    beside = admitted([mine, theirs], found, spent)
    assert (beside.least, set(beside.held_out)) == ({"j-1"}, {"j-1"})
    assert beside.held_out["j-1"].reason is WaitReason.BUDGET_USED
    elsewhere = replace(theirs, spec=of(2, gpu_types=["a100"]).spec)
    assert admitted([mine, elsewhere], found, spent).held_out == {}
    holding = of(1, holds=1)
    assert admitted([holding, theirs], found, spent).held_out == {}, "what it has it keeps until a policy wants it"


@pytest.mark.parametrize(
    ("units", "part", "sentence"),
    [
        (7.9, None, ""),
        (8.0, 0.8, "user ada has used 8 of its 10 value units of this month"),
        (
            12.0,
            1.0,
            "user ada has used 12 of its 10 value units of this month; until its end its jobs",
        ),
    ],
)
def test_at_80_percent_and_beyond_somebody_is_told(units: float, part: float | None, sentence: str) -> None:
    notes = budget_notes(teams({"value_units_a_month": 10.0}), {("user", "ada"): units, ("team", "gone"): 99.0})
    told = [(one, text[: len(sentence)]) for one, text in notes.values()]
    assert told == ([] if part is None else [(part, sentence)])


def test_jobs_that_are_set_aside_count_towards_limits() -> None:
    found = teams({"gpus": {"t4": 4}, "running": 2})
    quarantined = of(1, holds=3)
    given = admission([of(2), of(3)], found, {}, lambda job: ("t4",), [quarantined])
    assert set(given.held_out) == {"j-3"}
    assert given.held_out["j-3"].reason is WaitReason.LIMIT_RUNNING
    assert given.most["j-2"] == {"t4": 1}
    full = admission([of(2)], teams({"gpus": {"t4": 3}}), {}, lambda job: ("t4",), [quarantined])
    assert full.held_out["j-2"].reason is WaitReason.LIMIT_GPUS


@pytest.mark.parametrize("first", ["lab", None])
def test_each_pool_has_its_own_limit(first: str | None) -> None:
    found = teams({"gpus": {"t4": 4, "t4@lab": 2}})
    jobs = [of(1, max_gpus=8), of(2, max_gpus=8)]
    pools = [first, None if first else "lab"]
    jobs = [
        replace(one, spec=one.spec.model_copy(update={"pool": pool}))
        for one, pool in zip(jobs, pools, strict=True)
    ]
    given = admission(jobs, found, {}, lambda job: ("t4",))
    assert {one.spec.pool: given.most[one.id]["t4"] for one in jobs} == {"lab": 2, None: 4}


def test_a_job_that_limits_hold_out_keeps_no_gpus_from_one_over_its_budget() -> None:
    found = teams(vision={"running": 1}, speech={"value_units_a_month": 10})
    jobs = [of(1, holds=1, team="vision"), of(2, team="vision"), of(3, owner="bob", team="speech")]
    given = admitted(jobs, found, {("team", "speech"): 10.0})
    assert set(given.held_out) == {"j-2"}
    assert given.held_out["j-2"].reason is WaitReason.LIMIT_RUNNING
