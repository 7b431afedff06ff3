"""What the past of teams, priorities and leases of jobs mean for a round."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.teams import Priority, Team, Teams
from coadapt.policies.contract.round import Plan
from coadapt.scheduler.sharing.leases import JobLeases
from coadapt.scheduler.sharing.shares import TeamJob, share_factors, sharing_of
from coadapt.scheduler.sharing.used import DecayedUse, units_per_hour
from coadapt.simulator.engine.shares import SimulatedShares
from coadapt.simulator.forecasting.live_shares import LiveShares

from tests.support.live_states import live
from tests.support.rounds import on


def test_a_team_that_had_its_share_counts_as_before() -> None:
    assert share_factors({"a": 1.0, "b": 3.0}, {"a": 5.0, "b": 15.0}, ["a", "b"]) == {"a": 1.0, "b": 1.0}


def test_teams_that_used_nothing_count_alike() -> None:
    assert share_factors({"a": 1.0, "b": 3.0}, {}, ["a", "b"]) == {"a": 1.0, "b": 1.0}


def test_who_used_less_than_its_share_counts_more_within_a_step_of_priority() -> None:
    found = share_factors({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 999.0}, ["a", "b"])
    assert found["a"] == 2.0
    assert 0.5 <= found["b"] < 1.0


def test_only_teams_that_ask_are_compared() -> None:
    assert share_factors({"a": 1.0, "b": 1.0}, {"b": 50.0}, ["a"]) == {"a": 1.0}


def test_use_counts_half_after_a_half_life() -> None:
    use = DecayedUse(half_life_s=3600.0)
    use.add({}, 0.0)
    use.add({"a": 4.0}, 60.0)
    then = use.units["a"]
    use.add({}, 3660.0)
    assert use.units["a"] == pytest.approx(then / 2)
    assert then == pytest.approx(4.0 / 60, rel=0.01)


def test_value_units_are_gpu_hours_times_the_price_of_the_type() -> None:
    assert units_per_hour(on("a100", n0=4), None, {"a100": 3.0}, {}) == 12.0
    assert units_per_hour(on("a100", n0=4), None, {}, {"a100": 0.5}) == 2.0


def test_value_units_in_a_pool_go_by_the_prices_of_that_pool() -> None:
    prices = {"a100": 3.0, "a100@lab": 5.0}
    assert units_per_hour(on("a100", n0=4), "lab", prices, {}) == 20.0
    assert units_per_hour(on("a100", n0=4), "lab", {"a100": 3.0}, {"a100@lab": 0.5}) == 2.0


def test_simulated_use_in_a_pool_goes_by_the_prices_of_that_pool() -> None:
    teams = Teams(teams={"v": Team()}, prices={"a100": 3.0, "a100@lab": 5.0})
    of_lab = SimulatedShares(teams, {"x": "v"}, pool="lab")
    job = live("x")
    job = replace(job, spec=job.spec.model_copy(update={"pool": "lab", "team": "v"}))
    for shares in (of_lab, LiveShares(teams, [job])):
        shares.sharing(["x"], 0.0)
        shares.decided(Plan({"x": on("a100", n0=4)}), 0.0)
        shares.sharing(["x"], 36.0)
        assert shares.used.units["v"] == pytest.approx(0.2, rel=1e-3)


def test_a_lease_starts_anew_with_gpus_on_which_a_job_does_not_train_yet() -> None:
    leases = JobLeases(lease_s=100.0)
    leases.note({"x": on("a", n0=1)}, 50.0, {"x": 20.0})  # noted for the first time after a restart
    assert leases.until_s() == {"x": 120.0}
    leases.note({"x": on("b", n1=1)}, 200.0, {"x": 20.0})  # it still trains on what it had
    assert leases.until_s() == {"x": 300.0}


def test_a_lease_starts_with_gpus_and_with_more_of_them() -> None:
    leases = JobLeases(lease_s=100.0)
    leases.note({"x": on("a", n0=2)}, 0.0)
    leases.note({"x": on("a", n0=2)}, 60.0)
    assert leases.until_s() == {"x": 100.0}
    leases.note({"x": on("a", n0=1)}, 70.0)  # fewer GPUs begin no other lease
    assert leases.until_s() == {"x": 100.0}
    leases.note({"x": on("a", n0=4)}, 80.0)
    assert leases.until_s() == {"x": 180.0}
    leases.note({}, 90.0)
    leases.note({"x": on("a", n0=4)}, 95.0)
    assert leases.until_s() == {"x": 195.0}


def test_a_round_knows_teams_factors_and_leases() -> None:
    teams = Teams(teams={"a": Team(guarantee={"t4": 2}), "b": Team(cap={"t4": 3}, share=2.0)})
    jobs = [TeamJob("x", "a", Priority.HIGH.factor), TeamJob("y", "b"), TeamJob("z", "gone")]
    found = sharing_of(teams, jobs, {"a": 1.0, "b": 2.0}, {"x": 50.0})
    assert found.team == {"x": "a", "y": "b"}
    assert found.factor == {"x": 2.0, "y": 1.0}
    assert found.is_leased("x", 49.0)
    assert not found.is_leased("x", 50.0)
    assert not found.is_leased("y", 0.0)
    assert (dict(found.terms["a"].guarantee), dict(found.terms["b"].cap)) == ({"t4": 2}, {"t4": 3})
