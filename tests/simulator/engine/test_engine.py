"""A policy that has no plan for a round ends the run in a sentence that names it and the round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.policies.contract.round import Plan, Round
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.errors import PolicyFailed
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.traces.workload import TraceJob, Workload


class Fails:
    def __init__(self, does: Callable[[], Any]) -> None:
        self._does = does

    def plan(self, round: Round) -> Plan:
        found: Plan = self._does()
        return found


@pytest.mark.parametrize(
    ("does", "told"),
    [
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: int("many"), "invalid literal for int"),
        (lambda: None, "plan: NoneType is no Plan"),
        (lambda: Plan(cast(Any, ["a"])), "plan: list maps no jobs to placements"),
        (lambda: Plan({}, again_s=cast(float, "soon")), "plan: again_s 'soon' is no time in seconds"),
    ],
)
def test_a_policy_that_has_no_plan_ends_the_run_with_its_name_and_the_round(
    does: Callable[[], Any], told: str
) -> None:
    world = FixedLengthWorld(Workload.of([TraceJob("a", 70.0, 1, 300.0)]))
    with pytest.raises(PolicyFailed, match="policy Fails, round at 120 s: ") as error:
        Engine(world, Cluster((Node("n", "t4", 4),)), Fails(does), Timing(60.0)).run()
    assert told in str(error.value)
