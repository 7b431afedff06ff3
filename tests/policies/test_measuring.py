"""Jobs of which nothing is known are measured as they train: on how many GPUs, when, where (spec, A3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from coadapt.core.expected import UNKNOWN, Expected, ExpectedSource
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.rewards import Rewards
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.policy import Policy
from coadapt.policies.contract.round import JobView, Plan, Round

from tests.support.rounds import cluster, job, left, on


def asks(id: str, gpus: int, minutes: float | None, deadline: float | None = None, **view: Any) -> JobView:
    """Return a job; one that needs nobody knows how long is to be measured on one GPU, unless the view says it."""
    about: dict[str, Any] = {"submitted_s": 0.0, "age_s": 0.0, "restart_cost_s": 0.0, **view}
    if minutes is None:
        about = {"measured_on": 1, **about}
    expected = UNKNOWN if minutes is None else left(minutes * 60)
    rewards = None if deadline is None else Rewards.strict(deadline * 60)
    return job(id, gpus=gpus, adaptivity="rigid", known=False, expected=expected, rewards=rewards, **about)


def planned(policy: Policy, *jobs: JobView, nodes: str = "1x a:8", now: float = 0.0) -> Plan:
    return policy.plan(Round(now, 300.0, cluster(nodes), list(jobs)))


def gpus(plan: Plan) -> dict[str, int]:
    return {id: placement.gpus for id, placement in plan.placements.items()}


@pytest.mark.parametrize("asked", [1, 2, 3, 8, 16, 64])
def test_nobody_is_measured_on_more_than_two_gpus(asked: int) -> None:
    policy = make_policy("unisched")
    assert gpus(planned(policy, asks("new", asked, None))) == {"new": 1}
    later = asks("new", asked, None, measured_on=min(asked, 2), placement=on("a", n0=1))
    assert gpus(planned(policy, later, now=150.0)) == {"new": min(asked, 2)}
    assert gpus(planned(make_policy("unisched", published=True), asks("new", asked, None))) == {
        "new": min(asked, 2)
    }


def test_it_asks_to_be_called_in_the_middle_of_a_lease_while_jobs_are_measured() -> None:
    assert planned(make_policy("unisched"), asks("new", 8, None)).again_s == 150.0
    assert planned(make_policy("unisched"), asks("known", 8, 5)).again_s == 300.0
    assert planned(make_policy("unisched", published=True), asks("new", 8, None)).again_s == 300.0


def test_a_measured_job_then_asks_for_all_of_its_gpus() -> None:
    policy = make_policy("unisched")
    planned(policy, asks("new", 4, None))
    known = asks("new", 4, 60, placement=on("a", n0=2))
    plan = planned(policy, known, now=300.0)
    assert gpus(plan) == {"new": 4}
    assert not plan.lost


def test_as_published_what_it_trained_meanwhile_is_lost() -> None:
    policy = make_policy("unisched", published=True)
    assert not planned(policy, asks("new", 4, None)).lost
    assert planned(policy, asks("new", 4, 60, placement=on("a", n0=2)), now=300.0).lost == {"new"}
    assert not planned(policy, asks("new", 4, 50, placement=on("a", n0=4)), now=600.0).lost


def test_a_job_with_a_deadline_is_measured_before_others_and_behind_deadlines_that_must_run() -> None:
    due, must = asks("due", 8, None, deadline=600), asks("must", 7, 10, deadline=11)
    best = asks("best", 1, 5)
    assert gpus(planned(make_policy("unisched"), due, must, best)) == {"must": 7, "due": 1}
    assert "due" not in gpus(planned(make_policy("unisched"), due, asks("must", 8, 10, deadline=11)))


def test_nodes_that_are_kept_for_measuring_hold_nothing_else() -> None:
    policy = make_policy("unisched", profiler="static", measuring_nodes=1)
    best, new = asks("best", 8, 60), [asks(f"n{i}", 8, None, submitted_s=float(i)) for i in range(10)]
    plan = planned(policy, best, *new, nodes="3x a:8")
    nodes = {id: placement.shares[0].node_id for id, placement in plan.placements.items()}
    assert nodes.pop("best") != "a-000"
    assert nodes == {f"n{i}": "a-000" for i in range(8)}, "first come, first measured, and none elsewhere"
    assert list(plan.decisions) == ["best", *(f"n{i}" for i in range(10))]
    assert sorted(plan.order.tolist() if plan.order is not None else []) == list(range(11))
    assert len(plan.figures["due_s"]) == 11


def test_a_job_of_unknown_length_that_cannot_be_measured_on_fewer_has_its_first_lease_as_it_asks() -> None:
    assert gpus(planned(make_policy("unisched"), asks("new", 4, None, measured_on=0))) == {"new": 4}


def test_deadlines_are_planned_with_the_upper_end_where_that_still_holds() -> None:
    def unsure(high: float, deadline: float) -> JobView:
        view = asks("due", 8, 20, deadline=deadline)
        return replace(view, expected=Expected(1200.0, 900.0, high * 60, ExpectedSource.HISTORY))

    best = asks("best", 8, 60)
    assert set(planned(make_policy("unisched"), unsure(55, 60), best).placements) == {"due"}
    assert set(planned(make_policy("unisched", upper_end=False), unsure(55, 60), best).placements) == {"best"}
    assert set(planned(make_policy("unisched"), unsure(90, 60), best).placements) == {"best"}, (
        "it goes by the mean"
    )


def test_a_metric_ends_a_job_unless_it_is_planned_with_all_of_its_training() -> None:
    due, best = asks("due", 8, 20, deadline=60, longest_s=55 * 60.0), asks("best", 8, 60)
    assert set(planned(make_policy("unisched"), due, best).placements) == {"best"}
    assert set(planned(make_policy("unisched", iter_estimator="max_iter"), due, best).placements) == {"due"}


def test_chosen_one_after_the_other_a_deadline_that_could_wait_takes_the_place_of_others() -> None:
    waits, best = asks("waits", 8, 20, deadline=240), asks("best", 8, 30)
    joint, after = (make_policy("unisched", published=True, selection=how) for how in ("joint", "sequential"))
    assert set(planned(joint, waits, best).placements) == {"best"}
    assert set(planned(after, waits, best).placements) == {"waits"}
    six = [asks(f"j{i}", 6, 100, deadline=125) for i in range(2)]
    plan = planned(make_policy("unisched", variant="chronus"), *six, asks("two", 2, 10), nodes="4x a:8")
    assert set(plan.placements) == {"j0", "j1"}, "two nodes are kept for measuring, and six GPUs take eight"
    assert isinstance(plan.placements["j0"], Placement)
    assert isinstance(plan.placements["j0"].shares[0], NodeShare)
    assert np.isfinite(plan.objective)
