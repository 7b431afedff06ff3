"""Optimus: fewest GPUs for who needs least, and then each GPU where it saves most time."""

from __future__ import annotations

from typing import Any

from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Plan, Round

from tests.support.rounds import after, assert_within, cluster, held, job, left, model, on, rigid

HOUR_S = 3600.0


def grows(id: str, hours: float, link: float = 0.0, **view: Any) -> JobView:
    """Return a job of any size that needs so many hours on one GPU; `link` makes larger sizes slower."""
    return job(
        id, model=model({"a": 100.0}, link=link), expected=left(hours * HOUR_S), max_gpus=8, min_gpus=1,
        adaptivity="strong-scaling", **view,
    )  # fmt: skip


def planned(*jobs: JobView, nodes: str = "1x a:8", now: float = 0.0, **options: Any) -> Plan:
    policy = make_policy("optimus", **options)
    return policy.plan(Round(now, 60.0, cluster(nodes), list(jobs)))


def test_a_gpu_goes_where_it_saves_most_time() -> None:
    plan = planned(grows("long", 80), grows("short", 1))
    assert held(plan)["long"] == "4xa", "8 do not fit beside a job that has one"
    assert held(plan)["short"] in {"1xa", "2xa", "4xa"}
    far = planned(grows("near", 10), grows("slow", 10, link=500.0))
    assert held(far) == {"near": "4xa", "slow": "1xa"}, "more GPUs would make it slower"


def test_where_not_all_fit_those_that_need_least_run() -> None:
    jobs = [grows(f"j{i}", 1 + i) for i in range(12)]
    assert set(planned(*jobs).placements) == {f"j{i}" for i in range(8)}
    assert set(held(planned(*jobs)).values()) == {"1xa"}


def test_a_job_of_a_fixed_size_gets_that_or_nothing() -> None:
    plan = planned(rigid("wide", 8, expected=left(1.0)), rigid("small", 2, expected=left(60.0)))
    assert held(plan) == {"wide": "8xa"}
    plan = planned(rigid("wide", 8, expected=left(HOUR_S)), rigid("small", 2, expected=left(60.0)))
    assert held(plan) == {"small": "2xa"}
    mixed = planned(rigid("fixed", 4, expected=left(60.0)), grows("any", 2))
    assert held(mixed) == {"any": "4xa", "fixed": "4xa"}


def test_running_jobs_keep_what_they_have_until_the_interval_is_over() -> None:
    policy = make_policy("optimus", interval_s=600.0)
    where = cluster("1x a:8")
    jobs = [grows("one", 10, submitted_s=0.0)]
    first = policy.plan(Round(0.0, 60.0, where, jobs))
    assert held(first) == {"one": "8xa"} or held(first) == {"one": "4xa"}
    later = [*after(jobs, first), grows("two", 1, submitted_s=50.0)]
    between = policy.plan(Round(60.0, 60.0, where, later))
    assert held(between)["one"] == held(first)["one"]
    anew = policy.plan(Round(600.0, 60.0, where, later))
    assert set(anew.placements) == {"one", "two"}
    assert_within(anew, where)


def test_a_job_that_may_not_be_stopped_keeps_its_gpus() -> None:
    kept = rigid("kept", 8, expected=left(9e5), placement=on("a", n0=8), preemptible=False)
    assert held(planned(kept, grows("any", 1))) == {"kept": "8xa"}


def test_a_job_of_unknown_speed_gets_what_it_asks_for() -> None:
    plan = planned(job("new", known=False, min_gpus=2, max_gpus=8), grows("any", 1))
    assert held(plan)["new"] == "2xa"
