"""Which new jobs are measured first, and for how long (Lucid, Algorithm 3)."""

from __future__ import annotations

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.policies.packing.profiler import (
    Newcomer,
    ProfilerOptions,
    ProfilingOrder,
    borrows,
    evicted,
    in_order,
    returns,
    started,
)
from coadapt.policies.packing.tenants import Tenants
from pydantic import ValidationError

NODE = Cluster((Node("n", "t4", 8),))


def begin(jobs: list[Newcomer], order: ProfilingOrder, tenants: Tenants) -> list[str]:
    return list(started(in_order(jobs, order), lambda one: tenants.find(one.gpus, ["t4"]), tenants.take))


def newcomers(*gpus: int) -> list[Newcomer]:
    return [Newcomer(f"j{number}", count, float(number)) for number, count in enumerate(gpus)]


def test_least_gpus_come_first() -> None:
    assert begin(newcomers(8, 4, 1, 2), ProfilingOrder.SPACE, Tenants(NODE)) == ["j2", "j3", "j1"]
    assert begin(newcomers(8, 4, 1, 2), ProfilingOrder.ARRIVAL, Tenants(NODE)) == ["j0"]


def test_the_first_without_room_holds_up_those_behind_it_and_a_smaller_one_goes_ahead() -> None:
    tenants = Tenants(NODE)
    assert begin(newcomers(5), ProfilingOrder.SPACE, tenants) == ["j0"]
    waiting = [Newcomer("a", 1, 1.0), Newcomer("b", 4, 2.0), Newcomer("c", 2, 3.0)]
    assert begin(waiting, ProfilingOrder.SPACE, tenants) == ["a", "c"]
    tenants.give_back("a")
    assert begin([Newcomer("b", 4, 2.0), Newcomer("d", 1, 9.0)], ProfilingOrder.SPACE, tenants) == ["d"]


def test_a_job_is_there_for_t_prof_and_its_cold_start() -> None:
    there = [
        Newcomer("short", 1, 0.0, attained_s=150.0),
        Newcomer("long", 1, 0.0, attained_s=200.0),
        Newcomer("cold", 1, 0.0, attained_s=200.0, cold_start_s=60.0),
    ]
    assert evicted(there, 200.0) == ["long"]


def test_a_burst_borrows_and_its_end_returns_without_flapping() -> None:
    options, borrowed, switches = ProfilerOptions(), 0, 0
    for waiting in [0, 8, 11, 12, 9, 11, 8, 6, 11, 5, 4, 6, 9, 3]:
        before = borrowed
        if borrows(waiting, borrowed, options):
            borrowed += 1
        elif borrowed and returns(waiting, options, 10.0):
            borrowed -= 1
        switches += before != borrowed
    assert switches == 2
    assert not returns(0, options, 100.0), "a forecast of many GPUs keeps the node"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"shrink_at": 11}, "shrink_at: 11 is more than grow_at 10"),
        ({"burst_s": 300.0}, "burst_s: 300 s is more than t_prof_s 200 s"),
        ({"t_prof_s": 0}, "greater than 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, float], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        ProfilerOptions.model_validate(wrong)
