"""`packed`: pairs by their speed, an order by what is left, and jobs that give way where that pays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.usage import Usage
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.policies.contract.sharing import TeamTerms
from coadapt.policies.packed import GivingWay, PackedOptions, PackedPolicy
from coadapt.policies.packing.models import PackingModels
from coadapt.policies.packing.profiler import ProfilerOptions
from pydantic import ValidationError

from tests.policies.test_lucid import FOUR, beside, first, goes_on, new, nodes, shared, uses, waiting

NO_PAIRS = {"packing": "off"}


def packed(**options: Any) -> PackedPolicy:
    def speeds(a: Usage, b: Usage) -> tuple[float, float]:
        both = (a.gpu_util or 0.0) + (b.gpu_util or 0.0)
        return 1.2 - both, 1.2 - both

    return PackedPolicy(PackedOptions(**options), PackingModels(lambda usage: 2, speeds))


def later(jobs: list[JobView], plan: Plan, seconds: float) -> list[JobView]:
    return goes_on(jobs, plan, seconds)


def test_pairs_are_made_by_their_speed_and_only_where_no_gpu_is_idle() -> None:
    jobs = [waiting("a", 1, 100.0, 0.1), waiting("b", 1, 200.0, 0.3), waiting("c", 1, 300.0, 0.5)]
    late: dict[str, Any] = {"eager_cost_s": None}
    assert beside(first(packed(least_speed=0.5, **late), nodes(3), jobs)) == set()
    two = first(packed(least_speed=0.5, **late), nodes(2), jobs)
    assert beside(two) == {frozenset("ac")}, "0.6, and with b 0.4"
    assert beside(first(packed(least_speed=0.7, **late), nodes(2), jobs)) == set()


def test_a_pair_that_loses_little_is_made_at_once() -> None:
    jobs = [waiting("a", 1, 100.0, 0.1), waiting("b", 1, 200.0, 0.3)]  # both at 0.8 for 125 s: 50 s lost
    assert beside(first(packed(eager_cost_s=51.0), nodes(3), jobs)) == {frozenset("ab")}
    assert beside(first(packed(eager_cost_s=49.0), nodes(3), jobs)) == set()


def test_a_job_gives_way_to_one_with_far_less_to_do() -> None:
    policy, jobs = packed(**NO_PAIRS), [waiting("long", 2, 9000.0)]
    plan = first(policy, nodes(2), jobs)
    jobs = [*later(jobs, plan, 300.0), waiting("short", 2, 60.0)]
    plan = first(policy, nodes(2), jobs, 300.0)
    assert set(plan.placements) == {"short"}
    jobs = later(jobs[:1], plan, 60.0)
    assert set(first(policy, nodes(2), jobs, 400.0).placements) == {"long"}


@pytest.mark.parametrize(
    ("options", "job"),
    [
        ({"preempts": False}, {}),
        ({"giving_way": GivingWay(least_s=600.0)}, {}),
        ({"giving_way": GivingWay(factor=200.0)}, {}),
        ({}, {"preemptible": False}),
    ],
    ids=["policy that stops nothing", "began a moment ago", "not so much less", "may not be stopped"],
)
def test_a_job_keeps_its_gpus(options: dict[str, Any], job: dict[str, Any]) -> None:
    policy, jobs = packed(**NO_PAIRS, **options), [waiting("long", 2, 9000.0, **job)]
    plan = first(policy, nodes(2), jobs)
    jobs = [*later(jobs, plan, 300.0), waiting("short", 2, 60.0)]
    assert set(first(policy, nodes(2), jobs, 300.0).placements) == {"long"}


def test_only_those_give_way_whose_gpus_are_needed() -> None:
    policy = packed(**NO_PAIRS)
    jobs = [waiting(id, 1, seconds) for id, seconds in (("x", 9000.0), ("y", 8000.0), ("z", 7000.0))]
    plan = first(policy, nodes(3), jobs)
    jobs = [*later(jobs, plan, 300.0), waiting("short", 1, 60.0)]
    plan = first(policy, nodes(3), jobs, 300.0)
    assert set(plan.placements) == {"y", "z", "short"}


def test_both_of_a_pair_give_way_together() -> None:
    policy = packed(least_speed=0.5, packing="default")
    jobs = [waiting("a", 1, 9000.0, 0.1), waiting("b", 1, 9000.0, 0.1)]
    plan = first(policy, nodes(1), jobs)
    assert beside(plan) == {frozenset("ab")}
    jobs = [*later(jobs, plan, 600.0), waiting("short", 1, 60.0, None)]
    assert set(first(policy, nodes(1), jobs, 600.0).placements) == {"short"}


def test_a_job_that_has_outlived_its_estimate_is_not_taken_to_be_about_to_end() -> None:
    jobs = [replace(waiting("old", 1, 0.0), attained_gpu_s=10_000.0), waiting("young", 1, 600.0)]
    plan = first(packed(**NO_PAIRS), nodes(1), jobs)
    assert set(plan.placements) == {"young"}
    assert set(first(packed(**NO_PAIRS, grows_with=0.0), nodes(1), jobs).placements) == {"old"}


def test_who_has_waited_for_long_is_served_earlier_if_that_is_asked_for() -> None:
    jobs = [waiting("large", 1, 3600.0, submitted_s=0.0), waiting("small", 1, 1800.0, submitted_s=100_000.0)]
    for aging_h, served in ((None, "small"), (6.0, "large")):
        plan = first(packed(**NO_PAIRS, aging_h=aging_h), nodes(1), jobs, 100_000.0)
        assert set(plan.placements) == {served}


def test_a_measured_job_stays_where_it_is_while_nobody_waits_to_be_measured() -> None:
    policy, jobs = packed(profiler=ProfilerOptions(nodes=1)), [new("a", 8)]
    plan = first(policy, FOUR, jobs)
    there = plan.placements["a"]
    jobs = [replace(job, usage=uses(0.1)) for job in later(jobs, plan, 200.0)]
    plan = first(policy, FOUR, jobs, 200.0)
    assert plan.placements["a"] == there
    jobs = [*later(jobs, plan, 60.0), new("b", 8)]
    plan = first(policy, FOUR, jobs, 260.0)
    assert plan.placements["b"] == there
    assert plan.placements["a"] != there
    assert plan.lost == frozenset(), "and keeps what it has trained"


def test_a_guarantee_takes_back_what_is_borrowed_but_no_leased_job() -> None:
    terms = {"a": TeamTerms(), "b": TeamTerms(guarantee={"t4": 4})}
    for leased, served in (((), {"a1", "b1"}), (("a1", "a2"), {"a1", "a2"})):
        policy, jobs = packed(**NO_PAIRS), [waiting("a1", 4, 1000.0), waiting("a2", 4, 2000.0)]
        plan = policy.plan(shared(jobs, terms))
        jobs = [*later(jobs, plan, 300.0), waiting("b1", 4, 90_000.0)]
        assert set(policy.plan(shared(jobs, terms, leased, 300.0)).placements) == served


@pytest.mark.parametrize("seed", range(10))
def test_no_team_ever_exceeds_its_cap(seed: int) -> None:
    random, policy = np.random.default_rng(seed), packed(giving_way=GivingWay(factor=1.0, least_s=0.0))
    terms = {"a": TeamTerms(guarantee={"t4": 2}, cap={"t4": 3}), "b": TeamTerms(cap={"t4": 6}), "c": TeamTerms()}
    jobs: list[JobView] = []
    for turn in range(20):
        for number in range(int(random.integers(0, 4))):
            team, seconds = str(random.choice(list("abc"))), float(random.lognormal(6, 2))
            jobs.append(
                waiting(f"{team}{turn}-{number}", int(random.choice([1, 2, 4])), seconds, submitted_s=60.0 * turn)
            )
        plan = policy.plan(shared(jobs, terms, now=60.0 * turn))
        used = {team: sum(at.gpus for id, at in plan.placements.items() if id[0] == team) for team in "abc"}
        assert used["a"] <= 3
        assert used["b"] <= 6
        assert {team: by["t4"].used for team, by in plan.teams.items() if "t4" in by}.items() <= used.items()
        jobs = [job for job in later(jobs, plan, 60.0) if job.placement is None or random.random() > 0.2]


@pytest.mark.parametrize("seed", range(15))
def test_nothing_is_given_twice_and_who_may_not_be_stopped_is_not(seed: int) -> None:
    random = np.random.default_rng(seed)
    policy = packed(least_speed=0.6, giving_way=GivingWay(factor=1.0, least_s=0.0))
    cluster = Cluster(tuple(Node(f"n{at}", "t4", 4, pool="xy"[at % 2]) for at in range(4)))
    jobs: list[JobView] = []
    for turn in range(25):
        now = 60.0 * turn
        for number in range(int(random.integers(0, 4))):
            job = waiting(
                f"j{turn}-{number}", int(random.choice([1, 1, 2, 4, 8])), float(random.lognormal(6, 2)),
                random.choice([None, 0.1, 0.5, 0.9]), submitted_s=now, preemptible=bool(random.random() < 0.7),
            )  # fmt: skip
            jobs.append(replace(job, spec=job.spec.model_copy(update={"pool": str(random.choice(["x", "y"]))})))
        plan = policy.plan(Round(now, 60.0, cluster, jobs))
        on: dict[tuple[str, int], list[float]] = {}
        for job in jobs:
            at = plan.placements.get(job.id)
            if at is None:
                assert job.placement is None or job.spec.preemptible
                continue
            assert at.gpus == job.spec.resources.gpus == len(at.devices)
            assert {cluster.by_id[node].pool for node, _ in at.devices} == {job.spec.pool}
            if job.placement is not None and not job.spec.preemptible:
                assert at.devices == job.placement.devices
            for device in at.devices:
                on.setdefault(device, []).append(at.shares[0].share)
        assert all(sum(parts) <= 1.0 and len(parts) <= 2 for parts in on.values())
        jobs = [job for job in later(jobs, plan, 60.0) if job.placement is None or random.random() > 0.2]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"giving_way": {"factor": 0.5}}, "greater than or equal to 1"),
        ({"least_speed": 1.5}, "less than or equal to 1"),
        ({"aging_h": 0}, "greater than 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        PackedOptions.model_validate(wrong)
