"""A job that may not be moved does not wait for ever while smaller ones that came later start."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.decisions import Waiting, WaitReason
from coadapt.core.placement import Placement
from coadapt.policies.choosing.allocation_round import ProgramPolicy
from coadapt.policies.choosing.kept_place import KeptPlace, keep_place
from coadapt.policies.coadapt import CoadaptOptions, CoadaptPolicy
from coadapt.policies.contract.round import JobView, Round
from coadapt.policies.sia import SiaOptions, SiaPolicy

from tests.support.rounds import assert_within, cluster, given, held, job, on, rigid

PATIENCE_S = 600.0
POLICIES = {
    "sia": lambda patience_s: SiaPolicy(SiaOptions(patience_s=patience_s)),
    "coadapt": lambda patience_s: CoadaptPolicy(CoadaptOptions(patience_s=patience_s)),
}


def fixed(id: str, gpus: int, came_s: float = 0.0, placement: Placement | None = None, **asks: object) -> JobView:
    """Return a job that may not be moved once it runs."""
    return rigid(id, gpus, preemptible=False, submitted_s=came_s, placement=placement, **asks)


def kept(where: str, jobs: list[JobView], now: float = 1000.0, patience_s: float | None = PATIENCE_S) -> KeptPlace:
    running = {one.id: one.placement for one in jobs if one.placement is not None and not one.spec.preemptible}
    return keep_place(jobs, running, cluster(where), now, patience_s)


def starts(found: KeptPlace) -> dict[str, dict[str, int]]:
    return {id: dict(placement.by_node) for id, placement in found.given.items()}


def reasons(found: KeptPlace) -> dict[str, WaitReason]:
    return {id: waiting.reason for id, waiting in found.waits.items()}


WIDE = fixed("wide", 4)
IN_THE_WAY = fixed("old", 1, placement=on("a", n0=1))


def test_later_jobs_do_not_take_what_a_job_that_has_waited_needs() -> None:
    found = kept("1x a:4", [IN_THE_WAY, WIDE, fixed("late", 1, 900.0)])
    assert starts(found) == {}
    assert reasons(found) == {"wide": WaitReason.KEPT_BY_OTHERS, "late": WaitReason.PLACE_KEPT}
    assert found.waits["wide"].detail == (
        "4 GPUs on a-000 are kept for it until jobs that may not be stopped leave them: old."
    )
    assert found.waits["late"].detail == "A place is kept for job wide, which has waited for 17 minutes."


def test_they_start_where_it_needs_nothing() -> None:
    found = kept("2x a:4", [IN_THE_WAY, fixed("on1", 2, placement=on("a", n1=2)), WIDE, fixed("late", 1, 900.0)])
    assert starts(found) == {"late": {"a-001": 1}}  # fewer GPUs must become free on the other node
    assert list(found.waits) == ["wide"]


def test_they_share_a_node_of_which_it_needs_a_part() -> None:
    jobs = [IN_THE_WAY, fixed("on1", 1, placement=on("a", n1=1)), fixed("wide", 6)]
    found = kept("2x a:4", [*jobs, fixed("late", 1, 900.0), fixed("later", 1, 910.0)])
    assert starts(found) == {"late": {"a-001": 1}}
    assert reasons(found) == {"wide": WaitReason.KEPT_BY_OTHERS, "later": WaitReason.PLACE_KEPT}


@pytest.mark.parametrize(
    ("jobs", "patience_s"),
    [
        pytest.param([IN_THE_WAY, replace(WIDE, submitted_s=500.0)], PATIENCE_S, id="nobody has waited long"),
        pytest.param([IN_THE_WAY, WIDE], None, id="the operator keeps none"),
        pytest.param([IN_THE_WAY, rigid("wide", 4)], PATIENCE_S, id="it may be moved"),
        pytest.param([IN_THE_WAY, fixed("wide", 16)], PATIENCE_S, id="it fits no empty cluster"),
        pytest.param([IN_THE_WAY, fixed("wide", 4, gpu_types=["b"])], PATIENCE_S, id="its GPU type is not there"),
    ],
)
def test_nothing_is_kept(jobs: list[JobView], patience_s: float | None) -> None:
    found = kept("1x a:4", [*jobs, fixed("late", 1, 900.0)], patience_s=patience_s)
    assert not found.given
    assert not found.waits


def test_only_one_job_has_a_place() -> None:
    found = kept("1x a:4, 1x b:4", [IN_THE_WAY, fixed("on-b", 1, placement=on("b", n0=1)), WIDE, fixed("next", 4)])
    assert reasons(found) == {"wide": WaitReason.KEPT_BY_OTHERS, "next": WaitReason.PLACE_KEPT}


def test_it_starts_as_soon_as_its_place_is_clear_before_those_that_came_later() -> None:
    assert starts(kept("1x a:4", [fixed("late", 1, 900.0), WIDE])) == {"wide": {"a-000": 4}}


def test_a_place_of_several_nodes_is_that_with_the_fewest_taken_gpus() -> None:
    taken = {"n0": 3, "n1": 1, "n2": 2, "n3": 0}
    jobs = [fixed(f"on-{n}", gpus, placement=on("a", **{n: gpus})) for n, gpus in taken.items() if gpus]
    found = kept("4x a:4", [*jobs, fixed("wide", 10)])
    assert found.waits["wide"].detail.startswith("10 GPUs on a-001, a-002, a-003 are kept")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_stream_of_small_jobs_starves_a_wide_one_only_without_patience(policy: str) -> None:
    assert starts_after(POLICIES[policy](None)) is None
    started = starts_after(POLICIES[policy](PATIENCE_S))
    assert started is not None
    assert started <= PATIENCE_S + 5 * 60.0


def starts_after(policy: ProgramPolicy, rounds: int = 30) -> float | None:
    """Return when a job of a whole node starts, beside an elastic one and one new small job a minute.

    Small ones last five minutes. None: it has not started in as many rounds of a minute.
    """
    where = cluster("1x a:4")
    jobs = [job("elastic", max_gpus=4), fixed("small-a", 1, -60.0), fixed("small-b", 1, -30.0)]
    began: dict[str, float] = {}
    for minute in range(rounds):
        now = 60.0 * minute
        if minute == 1:
            jobs.append(fixed("wide", 4, now))
        jobs.append(fixed(f"small-{minute:02d}", 1, now))
        jobs = [one for one in jobs if one.id == "elastic" or now - began.get(one.id, now) < 300.0]
        round = given(where, jobs, {"elastic": {"1xa": 1.0, "2xa": 1.8, "4xa": 3.0}}, now)
        plan = policy.plan(round)
        assert_within(plan, where)
        waits = {one.id: plan.decision(one.id) for one in round.jobs if one.id not in plan.placements}
        assert all(isinstance(why, Waiting) for why in waits.values())
        if "wide" in plan.placements:
            return now - 60.0
        if now >= 60.0 + PATIENCE_S:
            assert "elastic" in held(plan) or sum(p.gpus for p in plan.placements.values()) == 4
        jobs = [replace(one, placement=plan.placements.get(one.id)) for one in jobs]
        began |= {id: began.get(id, now) for id in plan.placements}
    return None


def test_explaining_a_job_tells_for_whom_a_place_is_kept() -> None:
    policy = SiaPolicy(SiaOptions(patience_s=PATIENCE_S))
    round = Round(1000.0, 60.0, cluster("1x a:4"), [IN_THE_WAY, WIDE, fixed("late", 1, 900.0)])
    plan = policy.plan(round)
    assert held(plan) == {"old": "1xa"}
    said = " ".join(policy.explain("late", round, plan).sentences)
    assert "A place is kept for job wide" in said
    assert "are kept for it until" in " ".join(policy.explain("wide", round, plan).sentences)
