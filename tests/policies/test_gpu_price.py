"""Promises of `gpu_price`: a GPU that earns less stays free, the plan stays exact, and 0 changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Round
from hypothesis import given as cases
from hypothesis import settings
from hypothesis import strategies as st

from tests.support.rounds import assert_within, cluster, given, job, model, on

LOSING = {"1xa": 1.0, "2xa": 1.9, "4xa": 3.0, "8xa": 3.4}
POLICIES = ("sia", "coadapt")


def gpus(policy: str, price: float, *jobs: JobView, nodes: str = "1x a:8") -> int:
    round = given(nodes, list(jobs), {one.id: LOSING for one in jobs})
    plan = make_policy(policy, gpu_price=price).plan(round)
    return sum(placement.gpus for placement in plan.placements.values())


@pytest.mark.parametrize("policy", POLICIES)
def test_the_dearer_a_gpu_the_fewer_an_elastic_job_takes(policy: str) -> None:
    dear = 0.1 if policy == "sia" else 0.01
    taken = [gpus(policy, price, job("x", largest_gpus={"a": 8})) for price in (0, dear / 10, dear, 5)]
    assert taken == [8, 4, 2, 0]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_must_keep_its_gpus_keeps_them_at_any_price(policy: str) -> None:
    assert gpus(policy, 100.0, job("x", preemptible=False, placement=on("a", n0=4))) == 4


@settings(max_examples=30, deadline=None)
@cases(st.integers(0, 10_000), st.sampled_from([-0.5, 1.0]), st.sampled_from([0.0, 0.01, 0.05, 0.3]))
def test_a_priced_plan_is_the_best_one(seed: int, p: float, price: float) -> None:
    """The structured solver and HiGHS agree on the objective, whatever jobs run already."""
    rng = np.random.default_rng(seed)
    jobs = []
    for i in range(6):
        speed = {t: float(rng.uniform(0.5, 4)) for t in ("a", "b")}
        placement = on("a", **{f"n{i}": 1}) if i < 2 else None
        view = job(f"j{i}", placement=placement, restarts=int(rng.integers(0, 4)), age_s=600.0)
        jobs.append(replace(view, model=model(speed, link=float(rng.uniform(0, 0.3)))))
    round = Round(0.0, 60.0, cluster("2x a:4, 1x b:8"), jobs)
    options = {"gpu_price": price, "p": p, "gap": 0.0, "time_limit_s": 60.0}
    ours, other = (make_policy("sia", **options, solver=of).plan(round) for of in ("structured", "milp"))
    assert_within(ours, round.cluster)
    assert ours.objective == pytest.approx(other.objective, abs=1e-5)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_price_is_explained(policy: str) -> None:
    round = given("1x a:8", [job("x", largest_gpus={"a": 8})], {"x": LOSING})
    chosen = make_policy(policy, gpu_price=0.05 if policy == "sia" else 0.001)
    plan = chosen.plan(round)
    found = chosen.explain("x", round, plan)
    assert any("stays free" in line for line in found.sentences)
    assert any("for each GPU more" in line for line in found.sentences)
    assert found.facts["gpu_price"] > 0
