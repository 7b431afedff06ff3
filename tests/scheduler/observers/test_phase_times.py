"""An operator sees how long each phase of the last rounds took, and so which of them is slow."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.policies.contract.round import Plan, Round
from coadapt.scheduler.observers.phase_times import MOST_ROUNDS, PhaseTimes

from tests.support.cycles import World


def test_a_slow_policy_is_seen_in_the_phase_that_plans(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    plan = world.policy.plan

    def slow(round: Round) -> Plan:
        world.clock.forward(3.0)
        return plan(round)

    world.policy.plan = slow
    assert world.cycle.phase_times.rows() == {}
    world.play("submit a unprofiled\ngo")
    found = world.cycle.phase_times.rows()
    assert list(found) == ["observe", "upkeep", "snapshot", "plan", "place", "diff", "apply"]
    assert {phase: row["last_s"] for phase, row in found.items() if row["last_s"]} == {"plan": 3.0}


def test_cycles_without_a_round_are_not_counted(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play("submit a unprofiled\ngo\nstep\nstep")
    assert world.cycle.phase_times.rows()["plan"]["rounds"] == world.cycle.rounds


def test_the_median_and_the_most_are_of_the_last_rounds_only() -> None:
    times = PhaseTimes()
    for plan_s in (99.0, *[1.0] * (MOST_ROUNDS - 2), 5.0, 2.0):
        times.stepped({"observe": 0.0, "plan": plan_s})
    row = times.rows()["plan"]
    assert (row["last_s"], row["median_s"], row["most_s"], row["rounds"]) == (2.0, 1.0, 5.0, MOST_ROUNDS)


def test_a_round_whose_policy_raised_is_counted_too(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play("break policy\nsubmit a unprofiled\ngo")
    assert world.cycle.rounds == 0
    assert world.cycle.phase_times.rows()["plan"]["last_s"] == pytest.approx(0.0)
