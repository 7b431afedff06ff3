"""Nodes are bought once a need has lasted, at the best value for a dollar, and given up when idle."""

from __future__ import annotations

import pytest
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.contract.round import JobView, Plan

from tests.support.rounds import job, rigid, tabulated
from tests.support.scaling import ScalingWorld, asked, last, settings


def test_a_need_that_lasts_is_met_after_so_many_rounds_and_not_before() -> None:
    world = ScalingWorld(settings(t4="t4:4 2.0 0-3", rounds=3))
    world.submit(rigid("j", 4))
    world.round(2)
    assert asked(world) == {}
    world.round()
    assert asked(world) == {"t4": 1}
    assert last(world.told, "asked for") == (
        "1 node of type t4 is asked for, at 2 an hour: job j waited for 4 GPUs of type t4"
    )
    world.round(3)
    assert (asked(world), world.here()) == ({}, {"t4": 1})
    assert world.plan.placements["j"].by_node == {"t4-001": 4}
    assert last(world.told, "has come") == "m-t4-001 of type t4 has come, 2 min after it was asked for"


@pytest.mark.parametrize(
    ("given", "jobs", "expected"),
    [
        # What is cheapest for the same work.
        ({"dear": "t4:4 2.0 0-3", "cheap": "t4:4 0.6 0-3 spot"}, [rigid("j", 4)], {"cheap": 1}),
        # One large node serves as many jobs as two small ones, for less.
        ({"small": "t4:4 2.0 0-4", "large": "t4:8 3.5 0-4"}, [rigid("a", 4), rigid("b", 4)], {"large": 1}),
        # One job needs one small node only.
        ({"small": "t4:4 2.0 0-4", "large": "t4:8 3.5 0-4"}, [rigid("a", 4)], {"small": 1}),
        # A job that may use one type only gets that, however dear it is.
        ({"a": "a100:8 30 0-2", "t": "t4:4 2.0 0-2"}, [rigid("j", 8, gpu_types=["a100"])], {"a": 1}),
        # A job over several nodes gets all of them.
        ({"t": "t4:4 2.0 0-4"}, [rigid("j", 16)], {"t": 4}),
        # Or none, where limits do not hold them.
        ({"t": "t4:4 2.0 0-3"}, [rigid("j", 16)], {}),
        # Each job has its own need: two types are asked for at once.
        (
            {"a": "a100:8 30 0-2", "t": "t4:4 2.0 0-2"},
            [rigid("x", 8, gpu_types=["a100"]), rigid("y", 4, gpu_types=["t4"])],
            {"a": 1, "t": 1},
        ),
    ],
)  # fmt: skip
def test_the_type_of_most_value_for_a_dollar_is_chosen(
    given: dict[str, str], jobs: list[JobView], expected: dict[str, int]
) -> None:
    world = ScalingWorld(settings(**given))
    world.submit(*jobs)
    world.round(3)
    assert asked(world) == expected


def test_what_is_bought_for_one_job_delays_no_other() -> None:
    world = ScalingWorld(settings(a="a100:8 30 0-2", t="t4:4 2.0 0-2"), boot_rounds=9)
    world.submit(rigid("x", 4, gpu_types=["t4"]))
    world.round(2)
    world.submit(rigid("y", 8, gpu_types=["a100"]))
    world.round()
    assert asked(world) == {"t": 1}
    world.round(2)
    assert asked(world) == {"a": 1, "t": 1}
    world.round(4)
    assert (asked(world), world.state.numbered) == ({"a": 1, "t": 1}, 2)


def test_a_job_counts_by_its_speed_on_each_type() -> None:
    fast = {"a": "a100:4 4.0 0-2", "t": "t4:4 2.0 0-2"}
    for speed, expected in ((1.5, {"t": 1}), (3.0, {"a": 1})):
        world = ScalingWorld(settings(**fast))
        world.submit(rigid("j", 4, rates={"a100": speed, "t4": 1.0}))
        world.round(3)
        assert asked(world) == expected


def test_the_budget_is_never_exceeded_and_what_lacks_is_told() -> None:
    world = ScalingWorld(settings(budget=5.0, t4="t4:4 2.0 0-9"))
    world.submit(*(rigid(f"j{i}", 4) for i in range(5)))
    world.round(20)
    assert (world.here(), world.most_cost) == ({"t4": 2}, 4.0)
    assert world.control.chosen.held_back == "t4 costs 2 an hour, and 1.00 of the budget are left"


def test_limits_of_a_type_hold_and_the_next_best_is_taken() -> None:
    world = ScalingWorld(settings(cheap="t4:4 1.0 0-1", dear="t4:4 2.0 0-1"))
    world.submit(*(rigid(f"j{i}", 4) for i in range(3)))
    world.round(12)
    assert world.here() == {"cheap": 1, "dear": 1}
    assert world.control.chosen.held_back == (
        "all 1 of cheap are there or asked for; all 1 of dear are there or asked for"
    )


def test_the_least_of_a_type_is_there_without_any_need() -> None:
    world = ScalingWorld(settings(t4="t4:4 2.0 2-3"))
    world.round()
    assert asked(world) == {"t4": 2}
    world.round(30)
    assert (asked(world), world.here()) == ({}, {"t4": 2})


def test_an_idle_node_is_given_up_after_its_time_and_not_before() -> None:
    world = ScalingWorld(settings(t4="t4:4 2.0 1-3", idle_s=180.0))
    world.add("t4", 2)
    world.round(3)
    assert world.state.leaving == {}
    world.round()
    assert [one.machine for one in world.state.leaving.values()] == ["m-t4-001"]
    world.round(10)
    assert world.here() == {"t4": 1}
    assert last(world.told, "given up:") == (
        "m-t4-001 is given up: nothing ran there for 3 min, and it costs 2 an hour"
    )
    assert last(world.told, "has gone") == "m-t4-001 has gone, as it was given up"


def test_a_node_that_was_bought_stays_for_its_time() -> None:
    world = ScalingWorld(settings(t4="t4:4 2.0 0-3", idle_s=60.0, keep_s=600.0))
    world.submit(rigid("j", 4))
    world.round(6)
    world.end("j")
    came_s = next(iter(world.state.nodes.values())).since_s
    while world.here():
        assert world.now - came_s < 900.0
        world.round()
    assert world.now - came_s >= 600.0


def test_a_job_that_comes_meanwhile_keeps_a_node_that_is_given_up() -> None:
    world = ScalingWorld(settings(t4="t4:4 2.0 0-3"))
    world.add("t4")
    world.round(3)
    assert len(world.state.leaving) == 1
    (id,) = world.nodes
    world.plan = Plan({"late": Placement("t4", (NodeShare(id, 1),))})
    world.now += 1.0
    world.turn()
    assert (world.state.leaving, world.here()) == ({}, {"t4": 1})
    assert world.told[-1] == "m-t4-001 is kept: late"


def test_a_request_that_is_never_met_is_told_and_another_type_is_taken() -> None:
    world = ScalingWorld(settings(cheap="t4:4 1.0 0-2", dear="t4:4 2.0 0-2"), refuses={"cheap"})
    world.submit(rigid("j", 4))
    world.round(3 + 10)
    assert asked(world) == {"cheap": 1}
    world.round()
    assert asked(world) == {}
    assert last(world.told, "not waited for") == (
        "1 node of type cheap is not waited for any more: no node of it came in 10 min, nor ever; Ray's "
        "autoscaler may not know it; it is left out for 30 min"
    )
    world.round(3)
    assert asked(world) == {"dear": 1}
    world.round(40)
    assert last(world.told, "again") == "nodes of type cheap may be asked for again"
    assert (world.here(), world.state.unmet) == ({"dear": 1}, 1)


def test_only_a_type_that_was_never_there_is_to_blame_where_others_are_late_too() -> None:
    world = ScalingWorld(settings(odd="a100:4 1.0 0-2", t4="t4:4 2.0 0-2"), refuses={"odd", "t4"})
    world.add("t4")
    world.submit(
        rigid("x", 4, gpu_types=["a100"]), rigid("y", 4, gpu_types=["t4"]), rigid("z", 4, gpu_types=["t4"])
    )
    world.round(14)
    assert (asked(world), list(world.state.left_out)) == ({"t4": 1}, ["odd"])


def test_a_node_that_no_job_used_is_not_bought_again_at_once() -> None:
    world = ScalingWorld(settings(t4="t4:4 2.0 0-3"))
    world.submit(rigid("j", 4))
    world.round(4)
    world.end("j")
    world.round(8)
    assert (world.here(), world.state.left_out["t4"].reason) == ({}, "no job used the last one")


def test_a_killed_service_goes_on_without_buying_twice() -> None:
    world = ScalingWorld(settings(t4="t4:4 2.0 0-9"), boot_rounds=8)
    world.submit(rigid("j", 4))
    world.round(3)
    for _ in range(6):
        world.restart()
        world.round()
    assert (asked(world), world.state.numbered) == ({"t4": 1}, 1)
    world.round(5)
    assert (asked(world), world.here(), world.state.numbered) == ({}, {"t4": 1}, 1)


def test_a_dry_run_asks_for_nothing_and_tells() -> None:
    world = ScalingWorld(settings(t4="t4:4 2.0 0-9", mode="dry_run"))
    world.add("t4")
    world.submit(rigid("j", 8))
    world.round(5)
    assert (asked(world), world.state.leaving, world.state.numbered) == ({}, {}, 0)
    assert world.control.would == (
        "1 node of type t4 is asked for, at 2 an hour: job j waited for 8 GPUs of type t4",
        "m-t4-001 is given up: nothing ran there for 4 min, and it costs 2 an hour",
    )


def test_spot_nodes_with_many_notices_are_worth_less() -> None:
    given = {"fixed": "t4:4 2.0 0-4", "spot": "t4:4 1.0 0-4 spot"}
    world = ScalingWorld(settings(**given))
    world.add("spot")
    world.submit(rigid("a", 4, restart_cost_s=600.0))
    world.round(60)
    world.noticed = {"spot-001"}
    world.round(2)
    assert world.state.notices_per_h("spot") == pytest.approx(1.0, abs=0.05)
    assert world.state.notices == {"spot": 1}
    world.submit(rigid("b", 4, restart_cost_s=600.0))
    world.round(3)
    assert asked(world) == {"spot": 1}  # it loses a sixth of its worth, and costs half
    worse = ScalingWorld(world.settings, jobs=list(world.jobs))
    worse.state = world.state.__class__(notices={"spot": 4}, node_hours={"spot": 1.0})
    worse.round(3)
    assert asked(worse) == {"fixed": 2}


ELASTIC = {f"{r}x{t}": s * float(r) ** 0.8 for t, s in (("t4", 1.0), ("a100", 3.0)) for r in (1, 2, 4, 8)}


@pytest.mark.parametrize(("price", "expected"), [(9.0, {"t": 1}), (4.0, {"a": 1})])
@pytest.mark.parametrize("policy", ["sia", "coadapt"])
def test_prices_of_the_policy_say_what_a_node_is_worth(
    policy: str, price: float, expected: dict[str, int]
) -> None:
    world = ScalingWorld(settings(t="t4:4 2.0 1-3", a=f"a100:4 {price} 1-3"), policy)
    world.add("t")
    world.add("a")
    # As many jobs as GPUs: each more GPU is worth something, on an a100 about three times as much.
    world.submit(*(elastic(f"j{i}") for i in range(10)))
    world.round(2)
    assert asked(world) == {}
    world.round()
    assert len(world.control.chosen.offers) == 2
    best = world.control.chosen.offers[0]
    assert asked(world) == {best.type: 1}
    values = {one.type: one.value for one in world.control.chosen.offers}
    assert values["a"] > values["t"]
    assert best.per_dollar == max(values["a"] / price, values["t"] / 2.0)


def elastic(id: str) -> JobView:
    return job(id, model=tabulated(ELASTIC), max_gpus=8, largest_gpus={"t4": 8, "a100": 8})


def test_nodes_are_not_bought_by_prices_while_others_come() -> None:
    world = ScalingWorld(settings(t="t4:4 2.0 1-9"), "sia", boot_rounds=5)
    world.add("t")
    world.submit(*(elastic(f"j{i}") for i in range(6)))
    world.round(3)
    assert asked(world) == {"t": 1}
    world.round(4)
    assert (asked(world), world.state.numbered) == ({"t": 1}, 1)


def test_load_that_comes_and_goes_makes_no_node_flap() -> None:
    world = ScalingWorld(settings(t4="t4:4 2.0 1-4", idle_s=300.0))
    for i in range(40):  # a job of two minutes every four
        world.submit(rigid(f"j{i}", 4))
        world.round(2)
        world.end(f"j{i}")
        world.round(2)
    bought = sum("asked for, at" in line for line in world.told)
    assert (bought, world.here()) == (1, {"t4": 1})
