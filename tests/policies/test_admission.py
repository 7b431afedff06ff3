"""Teams under policies of fixed sizes: caps block, guarantees go first, and a reclaim stops borrowers."""

from __future__ import annotations

import pytest
from coadapt.core.decisions import Waiting, WaitReason
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.policies.contract.sharing import Sharing, TeamTerms
from hypothesis import given as cases
from hypothesis import settings
from hypothesis import strategies as st

from tests.support.rounds import assert_within, cluster, left, on, rigid

ALL = ["fifo", "sjf", "srtf", "qssf", "las", "themis", "gavel", "max_min"]
STARTING, CHOOSING = ["fifo", "sjf", "qssf"], ["las", "themis"]
V, W = TeamTerms(guarantee={"a": 4}), TeamTerms(guarantee={"a": 4})


def planned(policy: str, jobs: list[JobView], v: TeamTerms = V, w: TeamTerms = W, **more: object) -> Plan:
    """Plan 8 GPUs of one type; jobs called x… are of team v, and all others of team w."""
    team = {one.id: "v" if one.id.startswith("x") else "w" for one in jobs}
    sharing = Sharing({"v": v, "w": w}, team, **more)  # type: ignore[arg-type]
    round = Round(1000.0, 60.0, cluster("2x a:4"), jobs, sharing=sharing)
    plan = make_policy(policy).plan(round)
    assert_within(plan, round.cluster)
    return plan


def some(id: str, gpus: int, **view: object) -> JobView:
    return rigid(id, gpus, expected=left(600.0), **view)


@pytest.mark.parametrize("policy", ALL)
def test_a_cap_blocks_and_holds_up_nobody_else(policy: str) -> None:
    jobs = [some("x1", 2), some("x2", 2, submitted_s=1.0), some("y", 4, submitted_s=2.0)]
    plan = planned(policy, jobs, TeamTerms(cap={"a": 2}), TeamTerms())
    assert sorted(plan.placements) == ["x1", "y"] or sorted(plan.placements) == ["x2", "y"]
    (waits,) = {"x1", "x2"} - plan.placements.keys()
    decision = plan.decision(waits)
    assert isinstance(decision, Waiting)
    if policy not in ("gavel", "max_min"):
        assert decision.reason is WaitReason.TEAM_CAP


@pytest.mark.parametrize("policy", ALL)
def test_a_guarantee_goes_before_those_that_came_first(policy: str) -> None:
    jobs = [*(some(f"y{i}", 4, submitted_s=float(i)) for i in range(3)), some("x", 4, submitted_s=9.0)]
    plan = planned(policy, jobs)
    assert "x" in plan.placements
    assert len(plan.placements) == 2


@pytest.mark.parametrize("policy", STARTING)
def test_borrowers_are_stopped_once_their_lease_is_over(policy: str) -> None:
    jobs = [some("y0", 4, placement=on("a", n0=4)), some("y1", 4, placement=on("a", n1=4)), some("x", 4)]
    leased = planned(policy, jobs, leased_until_s={"y0": 2000.0, "y1": 2000.0})
    assert sorted(leased.placements) == ["y0", "y1"]
    plan = planned(policy, jobs, leased_until_s={"y0": 2000.0, "y1": 1000.0})
    assert sorted(plan.placements) == ["x", "y0"]


@pytest.mark.parametrize("policy", [*STARTING, *CHOOSING])
def test_what_may_not_be_stopped_is_not_reclaimed(policy: str) -> None:
    held = {"preemptible": False}
    jobs = [some(f"y{i}", 4, placement=on("a", **{f"n{i}": 4}), **held) for i in range(2)] + [some("x", 4)]
    assert sorted(planned(policy, jobs).placements) == ["y0", "y1"]


@pytest.mark.parametrize("policy", STARTING)
def test_only_as_many_borrowers_are_stopped_as_make_room(policy: str) -> None:
    jobs = [*(some(f"y{i}", 1, placement=on("a", n0=1)) for i in range(4)), some("y4", 4, placement=on("a", n1=4))]
    plan = planned(policy, [*jobs, some("x", 1)])
    assert len(plan.placements) == 5
    assert "y4" in plan.placements


@pytest.mark.parametrize("policy", STARTING)
def test_nobody_borrows_more_while_a_guarantee_waits(policy: str) -> None:
    jobs = [
        some("y0", 4, placement=on("a", n0=4)),
        some("y1", 3, placement=on("a", n1=3)),
        some("y2", 1, submitted_s=5.0),
        some("x", 4, submitted_s=9.0),
    ]
    leases = {"leased_until_s": {"y0": 2000.0, "y1": 2000.0}}
    plan = planned(policy, jobs, **leases)
    assert sorted(plan.placements) == ["y0", "y1"]
    decision = plan.decision("y2")
    assert isinstance(decision, Waiting)
    assert decision.reason is WaitReason.KEPT_FOR_TEAMS


@pytest.mark.parametrize("policy", ALL)
def test_an_idle_guarantee_is_lent_to_fixed_sizes(policy: str) -> None:
    plan = planned(policy, [some("y0", 4), some("y1", 4)])
    assert sorted(plan.placements) == ["y0", "y1"]
    assert plan.teams["w"]["a"].borrowed == 4


def test_explain_tells_how_the_team_stands() -> None:
    jobs = [some("y0", 4, placement=on("a", n0=4)), some("y1", 4, placement=on("a", n1=4))]
    sharing = Sharing({"w": W}, {"y0": "w", "y1": "w"})
    round, policy = Round(0.0, 60.0, cluster("2x a:4"), jobs, sharing=sharing), make_policy("fifo")
    found = policy.explain("y0", round, policy.plan(round))
    assert "Its team w has 8 a, of which 4 are borrowed." in found.sentences
    assert found.facts["team"] == "w"


@pytest.mark.parametrize("policy", ALL)
@settings(max_examples=25, deadline=None, derandomize=True)
@cases(data=st.data())
def test_caps_hold_and_guarantees_are_met_up_to_what_may_not_be_stopped(policy: str, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 9))
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 4]), min_size=count, max_size=count))
    jobs, free = [], {0: 4, 1: 4}
    for i, gpus in enumerate(sizes):
        node = data.draw(st.sampled_from([0, 1, None]))
        placement = None
        if node is not None and free[node] >= gpus:
            free[node] -= gpus
            placement = on("a", **{f"n{node}": gpus})
        name = data.draw(st.sampled_from("xy")) + str(i)
        jobs.append(some(name, gpus, placement=placement, submitted_s=float(i)))
    cap = data.draw(st.integers(0, 8))
    running = sum(one.placement.gpus for one in jobs if one.placement and one.id.startswith("x"))
    plan = planned(policy, jobs, TeamTerms(cap={"a": max(cap, running)}), W)
    used = sum(p.gpus for id, p in plan.placements.items() if id.startswith("x"))
    assert used <= max(cap, running)
    asks = [one.spec.asked_gpus for one in jobs if one.id.startswith("y")]
    if sum(asks) >= 4 and all(gpus == 4 for gpus in sizes):
        assert sum(p.gpus for id, p in plan.placements.items() if id.startswith("y")) >= 4
