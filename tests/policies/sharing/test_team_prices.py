"""Teams in the program of a round: caps hold, guarantees are met, and leases of jobs protect."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.decisions import Waiting, WaitReason
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.policies.contract.sharing import Sharing, Standing, TeamTerms

from tests.support.rounds import assert_within, given, held, job, on
from tests.support.share_instances import compare, draw

DOUBLING = {"1xa": 1.0, "2xa": 2.0, "4xa": 4.0, "8xa": 8.0}


def shared(round: Round, sharing: Sharing, policy: str = "sia") -> Plan:
    plan = make_policy(policy).plan(replace(round, sharing=sharing))
    assert_within(plan, round.cluster)
    return plan


def two(round_jobs: list[JobView], first: TeamTerms, second: TeamTerms, **more: object) -> Sharing:
    """Let jobs called x… be of team v, and all others of team w."""
    team = {one.id: "v" if one.id.startswith("x") else "w" for one in round_jobs}
    return Sharing({"v": first, "w": second}, team, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("part", range(4))
def test_small_rounds_of_teams_are_solved_as_by_the_exact_program(part: int) -> None:
    for seed in range(12 * part, 12 * part + 12):
        found = compare(draw(seed))
        wrong = (found.over_cap, found.over_limits, found.missed, found.outside)
        assert not any(wrong), (seed, wrong)
        assert found.gap <= 0.01, seed


@pytest.mark.parametrize("seed", [319, 991])  # jobs that must be served, and leases that leave a guarantee no room
def test_what_must_be_served_is_served_beside_teams(seed: int) -> None:
    found = compare(draw(seed))
    assert (found.over_cap, found.over_limits, found.missed, found.outside) == (False,) * 4
    assert found.gap <= 0.01


@pytest.mark.parametrize("seed", range(8))
def test_prices_alone_keep_caps_and_prove_their_bound(seed: int) -> None:
    found = compare(draw(seed), few=0)
    assert (found.over_cap, found.outside) == (False, False)


@pytest.mark.parametrize("policy", ["sia", "coadapt"])
def test_teams_without_terms_change_no_plan(policy: str) -> None:
    jobs = [job("x", placement=on("a", n0=2)), job("y"), job("z")]
    round = given("1x a:4, 1x b:4", jobs, {name: {**DOUBLING, "1xb": 2.0, "2xb": 3.0} for name in "xyz"})
    sharing = two(jobs, TeamTerms(), TeamTerms(), factor={})
    without, with_ = make_policy(policy).plan(round), make_policy(policy).plan(replace(round, sharing=sharing))
    assert with_.placements == without.placements
    assert with_.objective == without.objective


@pytest.mark.parametrize("policy", ["sia", "coadapt"])
def test_a_team_never_exceeds_its_cap(policy: str) -> None:
    jobs = [job("x1"), job("x2"), job("y")]
    round = given("1x a:8", jobs, dict.fromkeys(("x1", "x2", "y"), DOUBLING))
    plan = shared(round, two(jobs, TeamTerms(cap={"a": 2}), TeamTerms()), policy)
    assert sum(plan.placements[name].gpus for name in ("x1", "x2") if name in plan.placements) <= 2
    assert plan.teams["v"]["a"].is_at_cap


def test_what_waits_for_its_teams_cap_says_so_and_what_it_would_cost() -> None:
    jobs = [job(name, max_gpus=1) for name in ("x1", "x2", *(f"y{i}" for i in range(5)))]
    round = given("1x a:4", jobs, {one.id: DOUBLING for one in jobs})
    policy = make_policy("sia")
    factor = {"x1": 3.0, "x2": 2.0}
    round = replace(round, sharing=two(jobs, TeamTerms(cap={"a": 1}), TeamTerms(), factor=factor))
    plan = policy.plan(round)
    decision = plan.decision("x2")
    assert isinstance(decision, Waiting)
    assert decision.reason is WaitReason.TEAM_CAP
    lines = policy.explain("x2", round, plan).sentences
    assert any("at its cap of 1 a; each further one costs" in line for line in lines)


def test_a_guarantee_that_is_asked_for_is_met_by_moving_borrowers() -> None:
    jobs = [*(job(f"y{i}", placement=on("a", n0=1)) for i in range(4)), job("x", submitted_s=9.0)]
    table = {f"y{i}": {"1xa": 1.0} for i in range(4)} | {"x": {"1xa": 1.0}}
    round = given("1x a:4", jobs, table)
    assert "x" not in make_policy("sia").plan(round).placements
    plan = shared(round, two(jobs, TeamTerms(guarantee={"a": 1}), TeamTerms()))
    assert held(plan)["x"] == "1xa"
    assert len(plan.placements) == 4
    assert any(
        isinstance(d, Waiting) and d.reason is WaitReason.KEPT_FOR_TEAMS
        for d in map(plan.decision, plan.decisions)
    )


def test_a_job_under_lease_is_not_reclaimed() -> None:
    jobs = [*(job(f"y{i}", placement=on("a", n0=1)) for i in range(4)), job("x", submitted_s=9.0)]
    round = given("1x a:4", jobs, {f"y{i}": {"1xa": 1.0} for i in range(4)} | {"x": {"1xa": 1.0}})
    leases = {"leased_until_s": {f"y{i}": 1.0 for i in range(4)}}
    plan = shared(round, two(jobs, TeamTerms(guarantee={"a": 1}), TeamTerms(), **leases))
    assert sorted(plan.placements) == ["y0", "y1", "y2", "y3"]
    later = replace(round, now=1.0)
    assert "x" in shared(later, two(jobs, TeamTerms(guarantee={"a": 1}), TeamTerms(), **leases)).placements


def test_a_job_that_may_not_be_stopped_is_not_reclaimed() -> None:
    jobs = [
        *(job(f"y{i}", placement=on("a", n0=1), preemptible=False) for i in range(4)),
        job("x", submitted_s=9.0),
    ]
    round = given("1x a:4", jobs, {f"y{i}": {"1xa": 1.0} for i in range(4)} | {"x": {"1xa": 1.0}})
    plan = shared(round, two(jobs, TeamTerms(guarantee={"a": 1}), TeamTerms()))
    assert sorted(plan.placements) == ["y0", "y1", "y2", "y3"]


def test_an_idle_guarantee_is_lent() -> None:
    jobs = [job("y", placement=on("a", n0=4))]
    round = given("1x a:8", jobs, {"y": DOUBLING})
    plan = shared(round, two(jobs, TeamTerms(guarantee={"a": 8}), TeamTerms()))
    assert held(plan) == {"y": "8xa"}
    assert plan.teams["w"]["a"].borrowed == 8


def test_a_job_that_has_as_much_elsewhere_is_not_moved_to_its_guarantee() -> None:
    jobs = [job("x", placement=on("b", n0=4), largest_gpus={"a": 4, "b": 4})]
    round = given("1x a:4, 1x b:4", jobs, {"x": {**DOUBLING, "4xb": 40.0}})
    plan = shared(round, two(jobs, TeamTerms(guarantee={"a": 4}), TeamTerms()))
    assert held(plan) == {"x": "4xb"}


def test_a_higher_priority_wins_among_equals() -> None:
    jobs = [job("y", max_gpus=1), job("x", max_gpus=1, submitted_s=9.0)]
    round = given("1x a:1", jobs, {"x": {"1xa": 1.0}, "y": {"1xa": 1.0}})
    assert held(make_policy("sia").plan(round)) == {"y": "1xa"}
    plan = shared(round, two(jobs, TeamTerms(), TeamTerms(), factor={"x": 2.0}))
    assert held(plan) == {"x": "1xa"}


def test_a_reservation_beyond_the_cap_of_its_team_waits() -> None:
    jobs = [job("x", reservation={"gpu_type": "a", "gpus": 4}, largest_gpus={}), job("y")]
    round = given("1x a:4", jobs, {"x": DOUBLING, "y": DOUBLING})
    plan = shared(round, two(jobs, TeamTerms(cap={"a": 2}), TeamTerms()))
    assert held(plan) == {"y": "4xa"}


@pytest.mark.parametrize(
    ("standing", "told"),
    [
        (Standing(0), "Its team rest has no t4, and none are guaranteed to it."),
        (Standing(1, 2), "Its team rest has 1 t4 of its guarantee of 2."),
        (Standing(2, 1), "Its team rest has 2 t4, of which 1 is borrowed."),
        (Standing(2, 0, 2), "Its team rest is at its cap of 2 t4."),
    ],
)
def test_how_a_team_stands_is_one_sentence(standing: Standing, told: str) -> None:
    assert standing.told("rest", "t4") == told
