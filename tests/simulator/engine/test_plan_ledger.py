"""A plan that gives away what is not there ends the run, with the policy, the round, the node and the amounts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.configuration import ConfigurationSet
from coadapt.policies.contract.round import Plan, Round
from coadapt.policies.registry import name_of
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.errors import BadPlan
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.jobs.measured_rates import MeasuredRatesWorld
from coadapt.simulator.traces.workload import TraceJob, Workload

NODES = Cluster((Node("n1", "t4", 4, cpus=8.0, memory_gib=16.0), Node("n2", "t4", 4), Node("n3", "a100", 8)))


class Gives:
    """Carries out a plan per round, and goes on with the last one."""

    def __init__(self, *plans: Callable[[Round], Plan]) -> None:
        self._plans = list(plans)

    def plan(self, round: Round) -> Plan:
        return (self._plans.pop(0) if len(self._plans) > 1 else self._plans[0])(round)


def gives(**placements: Placement) -> Callable[[Round], Plan]:
    return lambda round: Plan(placements)


def on(node: str, gpus: Any, gpu_type: str = "t4", **more: float) -> Placement:
    return Placement(gpu_type, (NodeShare(node, gpus, **more),))


def run(*plans: Callable[[Round], Plan]) -> None:
    jobs = [TraceJob("a", 0.0, 2, 300.0), TraceJob("b", 0.0, 2, 300.0), TraceJob("late", 600.0, 2, 300.0)]
    Engine(FixedLengthWorld(Workload.of(jobs)), NODES, Gives(*plans), Timing(60.0)).run()


GOOD = gives(a=on("n1", 2), b=on("n1", 2))


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (gives(a=on("n1", 2), b=on("n1", 3)), "job b asks node n1 for 3 GPUs, of which 2 are free"),
        (gives(a=on("n1", 2), b=on("n2", 5)), "job b asks node n2 for 5 GPUs, of which 4 are free"),
        (
            gives(a=on("n1", 1, cpus=5.0), b=on("n1", 1, cpus=4.0)),
            "job b asks node n1 for 4 CPUs, of which 3 are free",
        ),
        (
            gives(a=on("n1", 1, memory_gib=12.0), b=on("n1", 1, memory_gib=8.0)),
            "job b asks node n1 for 8 GiB of memory, of which 4 are free",
        ),
        (gives(a=on("n9", 1)), "n9 is no node with t4 GPUs"),
        (gives(a=on("n3", 1)), "n3 is no node with t4 GPUs"),
        (gives(a=on("n1", math.nan)), "job a: gpus: nan on node n1, which has 4; 1 to 4 are accepted"),
        (gives(a=Placement("t4", ())), "which names no node"),
        (gives(a=cast(Placement, "n1")), "job a gets 'n1', which names no node"),
        (gives(a=on("n1", 2), b=cast(Placement, None)), "job b gets None, which names no node"),
        (gives(nobody=on("n1", 1)), "job 'nobody' gets GPUs and is not in the round"),
        (gives(late=on("n1", 1)), "job 'late' gets GPUs and is not in the round"),
    ],
)
def test_a_plan_that_over_commits_ends_the_run_with_what_is_lacking_where(
    plan: Callable[[Round], Plan], told: str
) -> None:
    with pytest.raises(BadPlan, match="policy Gives, round at 60 s: ") as error:
        run(GOOD, plan)
    assert told in str(error.value)


def test_a_job_that_holds_nothing_is_given_nothing_by_being_left_out() -> None:
    with pytest.raises(BadPlan, match="round at 0 s: job a gets None, which names no node"):
        run(gives(a=cast(Placement, None)))


def test_a_job_is_given_no_gpus_on_which_it_cannot_run() -> None:
    job = TraceJob("a", 0.0, 1, application="net", steps=9)
    world = MeasuredRatesWorld(Workload.of([job]), {("net", 1): {"t4": 1.0}})
    with pytest.raises(BadPlan, match="round at 0 s: job a gets a100 GPUs, on which it cannot run"):
        Engine(world, NODES, Gives(gives(a=on("n3", 1, "a100"))), Timing(60.0)).run()


def test_a_job_may_have_what_another_gives_up_in_the_same_plan() -> None:
    world = FixedLengthWorld(Workload.of([TraceJob(id, 0.0, 4, 300.0) for id in "ab"]))
    first, swapped = gives(a=on("n1", 4), b=on("n2", 4)), gives(a=on("n2", 4), b=on("n1", 4))
    outcome = Engine(world, NODES, Gives(first, swapped), Timing(60.0)).run()
    assert outcome.restarts.tolist() == [1, 1]


def test_a_placement_must_be_a_configuration_of_the_plan() -> None:
    configurations = ConfigurationSet(NODES)

    def three(round: Round) -> Plan:
        return Plan({"a": on("n1", 3)}, configurations=configurations)

    with pytest.raises(BadPlan, match=r"job a gets 3 t4 GPUs \(3 on n1\), which is no configuration of the plan"):
        run(three)


def test_a_registered_policy_is_named_as_users_name_it() -> None:

    assert name_of(make_policy("las")) == "las"
    assert name_of(Gives()) == "Gives"
