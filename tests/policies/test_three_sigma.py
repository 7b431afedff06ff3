"""3Sigma: starts by a program over distributions of lengths, for which best effort is stopped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coadapt.core.expected import UNKNOWN, Expected, ExpectedSource
from coadapt.core.rewards import Rewards
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Plan, Round

from tests.support.rounds import cluster, job, left, on

MIN_S = 60.0


def asks(id: str, gpus: int, minutes: float | None, deadline: float | None = None, **view: Any) -> JobView:
    expected = view.pop("expected", UNKNOWN if minutes is None else left(minutes * MIN_S))
    rewards = view.pop("rewards", None if deadline is None else Rewards.strict(deadline * MIN_S))
    about = {"submitted_s": 0.0, "restart_cost_s": 0.0, "age_s": 0.0, **view}
    return job(id, gpus=gpus, adaptivity="rigid", known=False, expected=expected, rewards=rewards, **about)


def planned(*jobs: JobView, nodes: str = "1x a:8", now: float = 0.0, **options: Any) -> Plan:
    return make_policy("three_sigma", **options).plan(Round(now, 60.0, cluster(nodes), list(jobs)))


def test_a_deadline_stops_best_effort_and_no_deadline_is_stopped() -> None:
    best = asks("best", 8, 60, placement=on("a", n0=8))
    assert set(planned(best, asks("due", 8, 20, deadline=300)).placements) == {"due"}
    runs = asks("runs", 8, 60, deadline=600, placement=on("a", n0=8))
    assert set(planned(runs, asks("due", 8, 20, deadline=21)).placements) == {"runs"}


def test_best_effort_runs_where_deadlines_leave_room_and_stays_there() -> None:
    running = asks("long", 4, 600, placement=on("a", n0=4))
    plan = planned(running, asks("short", 4, 5), asks("due", 4, 10, deadline=60))
    assert set(plan.placements) == {"long", "due"}, "what runs is stopped for deadlines only"
    assert set(planned(asks("long", 8, 600), asks("short", 8, 5)).placements) == {"short"}


def test_a_deadline_that_can_wait_leaves_its_place_to_one_that_cannot() -> None:
    plan = planned(asks("waits", 8, 10, deadline=60), asks("urgent", 8, 10, deadline=10))
    assert set(plan.placements) == {"urgent"}
    assert plan.figures["starts_in_s"].tolist() == [pytest.approx(600.0, abs=240.0), 0.0]


def test_a_job_past_its_deadline_is_best_effort_and_may_be_stopped() -> None:
    late = asks("late", 8, 60, deadline=30, placement=on("a", n0=8))
    assert set(planned(late, asks("due", 8, 20, deadline=60)).placements) == {"due"}


def test_the_plan_goes_by_the_distribution_and_not_only_by_its_mean() -> None:
    """Both jobs need ten minutes in the mean; who is surely in time is worth more than who is so in some cases."""
    sure = asks("sure", 8, 10, deadline=12)
    unsure = asks("unsure", 8, None, deadline=12, expected=Expected(600.0, 200.0, 1300.0, ExpectedSource.HISTORY))
    for pair in ((sure, unsure), (unsure, sure)):
        assert set(planned(*pair).placements) == {"sure"}


def test_it_asks_to_be_called_every_cycle() -> None:
    assert planned(asks("a", 1, 5), now=30.0).again_s == 60.0
    assert planned(asks("a", 1, 5), now=600.0, cycle_s=300.0).again_s == 900.0


def test_a_job_that_may_not_be_stopped_stays() -> None:
    kept = asks("kept", 8, 60, placement=on("a", n0=8), preemptible=False)
    assert set(planned(kept, asks("due", 8, 20, deadline=30)).placements) == {"kept"}


def test_types_that_run_a_job_fast_enough_are_chosen() -> None:
    due = asks("due", 2, 10, deadline=10, rates={"a": 1.0, "b": 2.0})
    assert planned(due, nodes="1x a:2, 1x b:2").placements["due"].gpu_type == "b"


def test_plans_fit_the_nodes_whatever_waits() -> None:
    random = np.random.default_rng(0)
    for _ in range(10):
        jobs = [
            asks(f"j{i}", int(random.choice([1, 2, 4, 8, 16])), float(random.integers(1, 200)),
                 deadline=float(random.integers(1, 400)) if random.random() < 0.7 else None)
            for i in range(40)
        ]  # fmt: skip
        plan = planned(*jobs, nodes="4x a:8")
        used: dict[str, int] = {}
        for placement in plan.placements.values():
            for share in placement.shares:
                used[share.node_id] = used.get(share.node_id, 0) + share.gpus
        assert sum(used.values()) <= 32
        assert max(used.values()) <= 8
        assert plan.objective <= plan.bound + 1e-6
