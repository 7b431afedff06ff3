"""UniSched and its peers with deadlines: who runs when, and that leases lie on the grid (spec, check B)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from coadapt.core.expected import UNKNOWN, Expected, ExpectedSource
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.rewards import Rewards
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.policy import Policy
from coadapt.policies.contract.round import JobView, Plan, Round

from tests.support.rounds import cluster, job, left

MIN_S = 60.0
NODE = "1x a:8"
BOTH = ("unisched", {"published": True}), ("unisched", {})


def asks(id: str, gpus: int, minutes: float | None, deadline: float | None = None, **view: Any) -> JobView:
    """Return a job that still needs some minutes, and has a deadline in some minutes."""
    rewards = view.pop("rewards", None) or (None if deadline is None else Rewards.strict(deadline * MIN_S))
    expected = UNKNOWN if minutes is None else left(minutes * MIN_S)
    return job(
        id, gpus=gpus, adaptivity="rigid", known=False, expected=expected, rewards=rewards, age_s=0.0,
        submitted_s=0.0, restart_cost_s=0.0, **view,
    )  # fmt: skip


def planned(policy: Policy, *jobs: JobView, nodes: str = NODE, now: float = 0.0) -> Plan:
    return policy.plan(Round(now, 300.0, cluster(nodes), list(jobs)))


def who(plan: Plan) -> set[str]:
    return set(plan.placements)


@pytest.mark.parametrize(("name", "options"), BOTH, ids=["published", "beyond"])
def test_a_deadline_comes_before_measuring_and_measuring_before_best_effort(
    name: str, options: dict[str, Any]
) -> None:
    strict, unknown = asks("strict", 8, 10, deadline=12), asks("unknown", 8, None)
    best, sooner = asks("best", 8, 15), asks("sooner", 8, 10)
    assert who(planned(make_policy(name, **options), strict, unknown, best)) == {"strict"}
    plan = planned(make_policy(name, **options), unknown, best, sooner, nodes="2x a:8")
    assert who(plan) == {"unknown", "sooner"}


@pytest.mark.parametrize(("name", "options"), [*BOTH, ("laxity", {})], ids=["published", "beyond", "laxity"])
def test_a_deadline_with_slack_waits_for_best_effort_and_else_runs_at_once(
    name: str, options: dict[str, Any]
) -> None:
    waits, best = asks("waits", 8, 20, deadline=240), asks("best", 8, 30)
    assert who(planned(make_policy(name, **options), waits, best)) == {"best"}
    assert who(planned(make_policy(name, **options), waits)) == {"waits"}
    urgent = asks("urgent", 8, 20, deadline=21)
    assert who(planned(make_policy(name, **options), urgent, best)) == {"urgent"}


@pytest.mark.parametrize(("name", "options"), BOTH, ids=["published", "beyond"])
def test_two_deadlines_that_need_the_same_gpus_begin_early_enough_for_both(
    name: str, options: dict[str, Any]
) -> None:
    first, second = asks("first", 8, 60, deadline=125), asks("second", 8, 60, deadline=125)
    assert len(who(planned(make_policy(name, **options), first, second, asks("best", 8, 600)))) == 1
    assert who(planned(make_policy(name, **options), first, second, asks("best", 8, 600))) <= {"first", "second"}
    assert who(planned(make_policy(name, **options), first, asks("best", 8, 600))) == {"best"}


def test_a_deadline_that_cannot_be_met_any_more_is_best_effort() -> None:
    late, best = asks("late", 8, 60, deadline=30), asks("best", 8, 30)
    for name in ("unisched", "laxity"):
        assert who(planned(make_policy(name), late, best)) == {"best"}
    assert who(planned(make_policy("unisched", published=True), late, best)) == {"best"}
    soft = asks("soft", 8, 60, rewards=Rewards.soft(50 * MIN_S))
    assert who(planned(make_policy("laxity"), soft, best)) == {"soft"}, "worth 50 within 60 minutes"


SPREAD = {1: 1.0, **dict.fromkeys(range(2, 7), 0.85)}


def test_four_jobs_of_six_gpus_run_at_once_on_three_nodes_where_shapes_are_joint() -> None:
    jobs = [asks(f"j{i}", 6, 100, deadline=125, on_nodes=SPREAD) for i in range(4)]
    joint = planned(make_policy("unisched", published=True), *jobs, nodes="3x a:8")
    assert who(joint) == {"j0", "j1", "j2", "j3"}
    assert sorted(one.nodes for one in joint.placements.values()) == [1, 1, 1, 3]
    apart = planned(make_policy("unisched", published=True, placement="consolidation"), *jobs, nodes="3x a:8")
    assert len(who(apart)) == 3
    assert who(planned(make_policy("unisched"), *jobs, nodes="3x a:8")) == {"j0", "j1", "j2", "j3"}


def test_leases_change_on_the_grid_only_as_published() -> None:
    policy = make_policy("unisched", published=True)
    best = asks("best", 8, 600)
    first = planned(policy, best)
    held = asks("best", 8, 590, placement=first.placements["best"])
    urgent = asks("urgent", 8, 40, deadline=58)
    assert who(planned(policy, held, urgent, now=60.0)) == {"best"}, "between two leases"
    assert who(planned(policy, held, urgent, now=300.0)) == {"best"}, "deadlines are looked at every ten minutes"
    assert who(planned(policy, held, urgent, now=600.0)) == {"urgent"}
    assert first.again_s == 300.0


def test_a_best_effort_lease_ends_while_one_of_a_deadline_goes_on() -> None:
    policy = make_policy("unisched", published=True)
    strict, long = asks("strict", 4, 40, deadline=45), asks("long", 4, 600)
    first = planned(policy, strict, long)
    assert who(first) == {"strict", "long"}
    running = [
        asks("strict", 4, 35, deadline=45, placement=first.placements["strict"]),
        asks("long", 4, 595, placement=first.placements["long"]),
    ]
    plan = planned(policy, *running, asks("short", 4, 5), now=300.0)
    assert who(plan) == {"strict", "short"}
    assert plan.placements["strict"] == first.placements["strict"]


def test_beyond_the_paper_gpus_that_fall_free_are_filled_at_once() -> None:
    jobs = asks("a", 4, 600), asks("b", 4, 600)
    for published, found in ((True, {"a"}), (False, {"a", "b"})):
        policy = make_policy("unisched", published=published)
        first = planned(policy, jobs[0])
        running = asks("a", 4, 599, placement=first.placements["a"])
        assert who(planned(policy, running, jobs[1], now=60.0)) == found


def test_a_job_that_must_run_takes_the_place_of_those_that_may_wait() -> None:
    small = [asks(f"s{i}", 1, 600, placement=Placement("a", (NodeShare(f"a-{i % 2:03d}", 1),))) for i in range(10)]
    urgent = asks("urgent", 8, 60, deadline=61)
    plan = planned(make_policy("unisched"), *small, urgent, nodes="2x a:8")
    assert "urgent" in who(plan)
    assert len(who(plan)) == 9, "eight stay or move, and two wait"


def test_any_feasible_plan_brings_no_more_than_the_best_one() -> None:
    jobs = [
        asks("low", 8, 10, rewards=Rewards.strict(10 * MIN_S, 10.0)),
        asks("high", 8, 10, rewards=Rewards.strict(10 * MIN_S, 100.0)),
    ]
    best, any_one = (
        planned(make_policy("unisched", published=True, objective=objective), *jobs)
        for objective in ("reward", "feasible")
    )
    assert who(best) == {"high"}
    assert len(who(any_one)) == 1
    assert any_one.objective < 2 < 100 <= best.objective


def test_a_job_is_explained_by_its_deadline() -> None:
    policy = make_policy("unisched")
    jobs = [asks("waits", 8, 20, deadline=240), asks("best", 8, 30)]
    round = Round(0.0, 300.0, cluster(NODE), jobs)
    plan = policy.plan(round)
    told = " ".join(policy.explain("waits", round, plan).sentences)
    assert "Its deadline is in 4 h, and it could wait for 3.7 h." in told
    assert "It needs 2 more leases of 10 min on 8 GPUs." in told
    assert "It is planned to have ended within 3.8 h." in told
    assert "A lease of its GPUs costs nothing now: no other deadline needs them." in told
    assert plan.deadlines["waits"].by_s == 230 * MIN_S
    assert "It has no deadline" in " ".join(policy.explain("best", round, plan).sentences)


def test_cells_cost_what_another_deadline_would_bring() -> None:
    policy = make_policy("unisched")
    worthy = asks("worthy", 8, 20, rewards=Rewards.strict(25 * MIN_S, 100.0))
    cheap = asks("cheap", 8, 20, rewards=Rewards.strict(25 * MIN_S, 40.0))
    round = Round(0.0, 300.0, cluster(NODE), [worthy, cheap])
    plan = policy.plan(round)
    assert who(plan) == {"worthy"}
    told = " ".join(policy.explain("worthy", round, plan).sentences)
    assert "It has the lease that ends in 10 min, which no best effort takes from it." in told
    assert "A lease of its GPUs costs " in told
    assert "now, of the 100 that ending in time is worth." in told
    assert plan.deadlines["cheap"].given_up
    assert not plan.deadlines["worthy"].given_up


def runs(job: JobView, gpus: int = 8) -> JobView:
    return replace(job, placement=Placement("a", (NodeShare("a-000", gpus),)))


def test_a_killed_service_lets_leases_go_on_to_their_end() -> None:
    tight, best = asks("tight", 8, 25, deadline=60), asks("best", 8, 5)
    policy = make_policy("unisched")
    assert who(planned(policy, asks("tight", 8, 55, deadline=60), best)) == {"tight"}
    later = (runs(asks("tight", 8, 20, deadline=60)), best)
    assert who(planned(policy, *later, now=4 * MIN_S)) == {"tight"}, "its lease is over at ten minutes"
    anew = make_policy("unisched")  # as after a kill: it remembers nothing
    assert who(planned(anew, *later, now=4 * MIN_S)) == {"tight"}
    assert who(planned(anew, *later, now=9 * MIN_S)) == {"tight"}
    assert who(planned(anew, *later, now=10 * MIN_S)) == {"best"}, "it can wait from the mark on"
    assert who(planned(make_policy("unisched"), tight, best, now=4 * MIN_S)) == {"best"}


def test_a_job_that_was_started_keeps_its_lease_unless_a_deadline_needs_the_gpus() -> None:
    policy = make_policy("unisched")
    waits, new = asks("waits", 8, 20, deadline=240), asks("new", 8, 10)
    assert who(planned(policy, waits)) == {"waits"}, "nobody else is there"
    assert who(planned(policy, runs(waits), new, now=9.0)) == {"waits"}, "shorter, but it came a moment later"
    urgent = asks("urgent", 8, 20, deadline=21)
    assert who(planned(policy, runs(waits), new, urgent, now=20.0)) == {"urgent"}
    assert who(planned(policy, runs(waits), new, now=300.0)) == {"new"}, "another lease of best effort begins"


def test_a_job_with_a_deadline_of_which_nothing_is_known_is_measured_before_best_effort() -> None:
    unknown, best = asks("unknown", 8, None, deadline=240), asks("best", 8, 5)
    assert who(planned(make_policy("unisched"), unknown, best)) == {"unknown"}
    measured = replace(unknown, attained_gpu_s=8 * 400.0)
    assert who(planned(make_policy("unisched"), measured, best)) == {"best"}, "it had its lease, and less is left"
    assert who(planned(make_policy("unisched"), measured, asks("long", 8, 50))) == {"unknown"}


def test_a_job_that_needs_more_gpus_than_there_are_can_meet_no_deadline() -> None:
    plan = planned(make_policy("unisched"), asks("wide", 16, 10, deadline=60), asks("best", 8, 30))
    assert who(plan) == {"best"}
    assert plan.deadlines["wide"].given_up


def test_who_waits_for_a_deadline_is_told_so_and_whose_deadline_it_is_too() -> None:
    policy = make_policy("unisched")
    urgent, best = asks("urgent", 8, 20, deadline=21), asks("best", 8, 30)
    round = Round(0.0, 300.0, cluster(NODE), [urgent, best])
    plan = policy.plan(round)
    told = {job: " ".join(policy.explain(job, round, plan).sentences) for job in ("urgent", "best")}
    assert "It waits, as urgent must run now for its deadline." in told["best"]
    assert "For its deadline best waits." in told["urgent"]
    calm = Round(0.0, 300.0, cluster("2x a:8"), [urgent, best])
    plan = make_policy("unisched").plan(calm)
    for name in ("urgent", "best"):
        told[name] = " ".join(policy.explain(name, calm, plan).sentences)
        assert "waits" not in told[name]


def test_deadlines_are_planned_by_the_upper_end_of_the_band() -> None:
    doubtful = Expected(20 * MIN_S, 15 * MIN_S, 40 * MIN_S, ExpectedSource.MEASURED_SPEED)
    waits, best = replace(asks("waits", 8, 20, deadline=45), expected=doubtful), asks("best", 8, 5)
    assert who(planned(make_policy("unisched"), waits, best)) == {"waits"}, "it may take 40 of 45 minutes"
    assert who(planned(make_policy("unisched"), asks("waits", 8, 20, deadline=45), best)) == {"best"}
    published = make_policy("unisched", published=True)
    assert published.plan(Round(0.0, 300.0, cluster(NODE), [waits])).figures["slack_s"][0] == 25 * MIN_S
    tight = replace(asks("tight", 8, 20, deadline=30), expected=doubtful)
    plan = planned(make_policy("unisched"), tight, best)
    assert who(plan) == {"tight"}
    assert not plan.deadlines["tight"].given_up, "it holds if the job is no longer than expected"


def test_peers_serve_deadlines_first_and_stop_nothing() -> None:
    best = asks("best", 4, 5)
    short, urgent = asks("short", 4, 30, deadline=400), asks("urgent", 4, 50, deadline=60)
    assert who(planned(make_policy("hydra"), best, short, urgent, nodes="1x a:4")) == {"short"}
    assert who(planned(make_policy("genie"), best, short, urgent, nodes="1x a:4")) == {"urgent"}
    running = asks("best", 4, 5, placement=Placement("a", (NodeShare("a-000", 4),)))
    for name in ("hydra", "genie"):
        assert who(planned(make_policy(name), running, urgent, nodes="1x a:4")) == {"best"}
    assert who(planned(make_policy("hydra", preempts=True), running, urgent, nodes="1x a:4")) == {"urgent"}
    hopeless = asks("hopeless", 4, 50, deadline=40)
    for name in ("hydra", "genie", "laxity"):
        policy = make_policy(name)
        round = Round(0.0, 300.0, cluster("1x a:4"), [best, urgent, hopeless])
        plan = policy.plan(round)
        assert policy.explain("urgent", round, plan).sentences
        assert {id: one.given_up for id, one in plan.deadlines.items()} == {"urgent": False, "hopeless": True}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"deadline_lease_s": 700}, "deadline_lease_s: 700 is no multiple of best_effort_lease_s 300"),
        ({"deadline_lease_s": 200}, "deadline_lease_s: 200 is no multiple"),
        ({"published": True, "urgent_s": 9}, "urgent_s: goes without published"),
    ],
)
def test_options_that_go_together_with_nothing_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make_policy("unisched", **options)


def test_small_jobs_that_must_run_move_so_that_a_large_one_finds_a_node() -> None:
    places = [Placement("a", (NodeShare(f"a-{i:03d}", 1),)) for i in range(2)]
    small = [asks(f"s{i}", 1, 60, deadline=61, placement=place) for i, place in enumerate(places)]
    plan = planned(make_policy("unisched"), *small, asks("large", 8, 60, deadline=61), nodes="2x a:8")
    assert who(plan) == {"s0", "s1", "large"}
    (stays,) = (i for i, place in enumerate(places) if plan.placements[f"s{i}"] == place)
    assert plan.placements["large"].shares[0].node_id == f"a-{1 - stays:03d}"


def test_a_node_is_cleared_only_where_it_has_the_cpus_that_the_large_job_asks_for() -> None:
    places = [Placement("a", (NodeShare(f"a-{i:03d}", 1, 1.0),)) for i in range(2)]
    small = [asks(f"s{i}", 1, 60, deadline=61, placement=place) for i, place in enumerate(places)]
    greedy = asks("greedy", 8, 60, deadline=61, cpus_per_gpu=3.0)
    plan = planned(make_policy("unisched"), *small, greedy, nodes="2x a:8")
    assert who(plan) == {"s0", "s1"}
    assert [plan.placements[f"s{i}"] for i in range(2)] == places, "nobody is moved in vain"


def test_a_job_that_is_planned_for_a_later_deadline_takes_no_place_for_its_first_one() -> None:
    soft = Rewards.soft(110 * MIN_S)
    policy = make_policy("unisched", urgent_s=0)
    first = planned(policy, asks("a", 8, 100, deadline=110), asks("b", 8, 20, rewards=soft))
    assert who(first) == {"a"}
    running = asks("a", 8, 20, deadline=110, placement=first.placements["a"])
    waits = asks("b", 8, 20, rewards=soft)
    assert who(planned(policy, running, waits, now=80 * MIN_S)) == {"a"}
    assert who(planned(policy, running, waits, now=88 * MIN_S)) == {"a"}, "its first deadline would need it now"
