"""Priority without teams: progress of a job counts more, and queues serve it first; all equal changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.teams import Priority
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Round
from coadapt.policies.contract.sharing import Sharing

from tests.support.rounds import cluster, given, held, job, left, rigid

QUEUES = ["fifo", "sjf", "srtf", "qssf", "las"]
PROGRAMS = ["sia", "coadapt"]
TABLE = {"first": {"1xa": 1.0, "2xa": 1.9}, "second": {"1xa": 1.0, "2xa": 1.9}}


def of_priority(view: JobView, priority: Priority) -> JobView:
    return replace(view, spec=view.spec.model_copy(update={"priority": priority}))


@pytest.mark.parametrize("policy", QUEUES)
def test_queues_serve_higher_priorities_first(policy: str) -> None:
    jobs = [rigid("first", 4, expected=left(60.0)), rigid("second", 4, expected=left(600.0), submitted_s=9.0)]
    jobs[1] = of_priority(jobs[1], Priority.HIGH)
    round = Round(10.0, 60.0, cluster("1x a:4"), jobs)
    made = make_policy(policy)
    plan = made.plan(round)
    assert list(plan.placements) == ["second"]
    told = " ".join(made.explain("first", round, plan).sentences)
    assert "Jobs of higher priority come before all others; its own is normal." in told


@pytest.mark.parametrize("policy", QUEUES)
def test_equal_priorities_change_no_order(policy: str) -> None:
    jobs = [rigid(f"j{i}", 2, expected=left(60.0 * i), submitted_s=float(i)) for i in range(4)]
    plain = Round(10.0, 60.0, cluster("1x a:4"), jobs)
    low = replace(plain, jobs=[of_priority(one, Priority.LOW) for one in jobs])
    assert make_policy(policy).plan(low).placements == make_policy(policy).plan(plain).placements


@pytest.mark.parametrize("policy", PROGRAMS)
@pytest.mark.parametrize("favoured", ["first", "second"])
def test_programs_count_progress_of_higher_priorities_more(policy: str, favoured: str) -> None:
    round = given("1x a:1", [job("first"), job("second", submitted_s=1.0)], TABLE)
    plan = make_policy(policy).plan(replace(round, sharing=Sharing({}, {}, {favoured: 4.0})))
    assert held(plan) == {favoured: "1xa"}


@pytest.mark.parametrize("policy", PROGRAMS)
def test_the_gap_is_proven_also_where_there_are_only_priorities(policy: str) -> None:
    round = given("1x a:2", [job("first"), job("second", submitted_s=1.0)], TABLE)
    plan = make_policy(policy).plan(replace(round, sharing=Sharing({}, {}, {"second": 2.0})))
    assert plan.bound >= plan.objective
    assert plan.gap == pytest.approx(0.0, abs=1e-6)
