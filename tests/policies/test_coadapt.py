"""What policy `coadapt` sees coming, each on a cluster small enough to tell, and that its plans are sound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from coadapt.policies.catalogue import make_policy
from coadapt.policies.choosing.newcomers import Newcomers
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.jobs.fitted import FittedApplications
from coadapt.simulator.replay import simulation
from coadapt.simulator.synthetic import synthetic
from coadapt.simulator.traces.cluster_file import read_cluster
from hypothesis import given as cases
from hypothesis import settings
from hypothesis import strategies as st

from tests.support.rounds import after, assert_within, cluster, held, job, model, on

SLOW_LINK = model({"a": 100.0, "b": 30.0}, link=0.05)


def plan(where: str, jobs: list[JobView], now: float = 0.0, **options: object) -> Plan:
    return make_policy("coadapt", **options).plan(Round(now, 60.0, cluster(where), jobs))


def test_a_job_that_is_about_to_end_stays_where_it_is() -> None:
    runs = job("x", model=SLOW_LINK, placement=on("a", n0=1), remaining=100.0)  # a second or two more
    assert held(plan("1x a:8", [runs])) == {"x": "1xa"}
    assert held(plan("1x a:8", [runs], ends=False)) != {"x": "1xa"}
    assert held(plan("1x a:8", [replace(runs, remaining=1e7)])) != {"x": "1xa"}


def test_a_job_that_is_moved_all_the_time_needs_a_better_reason() -> None:
    settled = job("x", model=SLOW_LINK, placement=on("a", n0=4), remaining=1e7)
    restless = replace(settled, restarts=100)
    assert held(plan("1x a:8", [settled])) == {"x": "8xa"}
    assert held(plan("1x a:8", [restless])) == {"x": "4xa"}


def test_a_new_job_starts_on_several_gpus_and_with_none_known_on_one() -> None:
    new = job("x", model=SLOW_LINK, largest_gpus={}, age_s=0.0)
    assert held(plan("1x a:8", [new])) == {"x": "4xa"}
    assert held(plan("1x a:8", [new], first_replicas=1)) == {"x": "1xa"}
    assert held(plan("1x a:8", [replace(new, model=None)])) == {"x": "1xa"}


def test_noise_that_is_not_measured_yet_is_expected() -> None:
    quiet = replace(SLOW_LINK, noise_scale=None)  # its batch would stay at 32 samples, of no use to many GPUs
    new = job("x", model=quiet, largest_gpus={}, age_s=0.0)
    rows = [plan("1x a:8", [new], noise_ahead=ahead).rows["x"] for ahead in (50.0, 0.0)]
    expects, does_not = (row[2] / row[0] for row in rows)  # 4 GPUs over 1
    assert expects > does_not


def test_room_is_kept_for_jobs_that_are_expected_and_given_to_them() -> None:
    where = cluster("1x a:16")
    policy = make_policy("coadapt", room=1.0)
    old = job("old", model=SLOW_LINK, placement=on("a", n0=4), remaining=1e7)
    jobs = [old]
    for minute in range(10):  # a short job every minute, which is gone at the next
        jobs = [old, job(f"new{minute}", model=SLOW_LINK, largest_gpus={}, age_s=0.0, submitted_s=60.0 * minute)]
        found = policy.plan(Round(60.0 * minute, 60.0, where, jobs))
    assert "new9" in found.placements
    kept = policy.plan(Round(600.0, 60.0, where, [old])).placements["old"].gpus
    free = make_policy("coadapt", room=0.0).plan(Round(600.0, 60.0, where, [old])).placements["old"].gpus
    assert kept < free == 16


@cases(st.lists(st.floats(0, 7200), min_size=1, max_size=30), st.integers(1, 6))
def test_chances_of_newcomers_are_those_of_a_poisson_process(times: list[float], most: int) -> None:
    newcomers, policy_jobs = Newcomers(), []
    for i, now in enumerate(sorted(times)):
        policy_jobs.append(job(f"j{i}", model=SLOW_LINK, largest_gpus={}))
        newcomers.note(policy_jobs, None, lambda job: np.ones(2), now)  # type: ignore[arg-type]
    found = newcomers.expected(max(times), 300.0, most)
    assert found is not None
    chances, values = found
    assert values.tolist() == [1.0, 1.0]
    assert (np.diff(chances) <= 1e-12).all()
    assert ((chances >= -1e-12) & (chances <= 1)).all()


@settings(max_examples=25)
@cases(seed=st.integers(0, 10_000), count=st.integers(1, 12), room=st.sampled_from([0.0, 0.5]))
def test_plans_are_feasible_leave_nobody_out_needlessly_and_settle(seed: int, count: int, room: float) -> None:
    where, random = cluster("2x a:4, 1x b:8"), np.random.default_rng(seed)
    jobs = [
        job(
            f"j{i:02d}",
            model=model({"a": random.uniform(10, 200), "b": random.uniform(10, 200)}, random.uniform(0, 0.1)),
            largest_gpus={},
            age_s=float(random.uniform(0, 5000)),
            remaining=None if random.random() < 0.3 else float(random.uniform(1e2, 1e6)),
            submitted_s=float(i),
        )
        for i in range(count)
    ]
    policy = make_policy("coadapt", room=room)
    for minute in range(4):
        found = policy.plan(Round(60.0 * minute, 60.0, where, jobs))
        assert_within(found, where)
        assert set(found.placements) == {j.id for j in jobs}  # 16 GPUs, 12 jobs at most
        jobs = after(jobs, found)
    assert policy.plan(Round(300.0, 60.0, where, jobs)).placements.keys() == found.placements.keys()


def test_a_simulated_cluster_has_rounds_where_jobs_arrive_unless_told_otherwise() -> None:
    nodes, source = read_cluster("2x t4:4, 1x a100:8"), FittedApplications(("a100", "t4"))
    trace = synthetic(12, 20.0, 1)

    def waits(policy: str, timing: Timing, **options: object) -> float:
        under = Conditions(timing, profiling_s=0.0)
        return float(simulation(trace, nodes, policy, options, source, under).run().queueing_s.max())

    assert waits("coadapt", Timing()) == pytest.approx(0.5)
    assert waits("coadapt", Timing(), early_rounds=False) > 10
    assert waits("sia", Timing()) > 10
    assert waits("sia", Timing(early_s=2.0)) == pytest.approx(2.0)
