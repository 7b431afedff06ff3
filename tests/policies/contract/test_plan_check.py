"""A plan that cannot be one of its round is refused in one sentence."""

from __future__ import annotations

import math
import re
from typing import Any, cast

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.contract.plan_check import WrongPlan, check_plan
from coadapt.policies.contract.round import JobView, Plan, Round

CLUSTER = Cluster((Node("n", "t4", 4), Node("m", "a100", 2), Node("p", "t4", 2, pool="team")))
SPEC = JobSpec(name="j", script="t.py")
OURS = SPEC.model_copy(update={"pool": "team"})
ROUND = Round(100.0, 60.0, CLUSTER, [JobView("a", SPEC), JobView("b", SPEC), JobView("c", OURS)])


def on(gpu_type: str, *shares: NodeShare) -> Placement:
    return Placement(gpu_type, shares)


def test_a_plan_within_the_cluster_is_accepted() -> None:
    half = NodeShare("n", 1, share=0.5, devices=(3,))
    placements = {"a": on("t4", NodeShare("n", 3), half), "b": on("t4", half), "c": on("t4", NodeShare("p", 2))}
    check_plan(Plan(placements, again_s=130.0), ROUND)
    check_plan(Plan({}, again_s=math.inf), ROUND)


@pytest.mark.parametrize(
    ("placements", "said"),
    [
        ({"z": on("t4", NodeShare("n", 1))}, "job 'z' gets GPUs and is not in the round"),
        ({"a": on("t4")}, "which names no node"),
        ({"a": None}, "job a gets None, which names no node"),
        ({"a": on("t4", NodeShare("x", 1))}, "job a gets GPUs of node x, which is not in the round"),
        ({"a": on("t4", NodeShare("m", 1))}, "job a gets GPUs of node m as t4; it has a100"),
        ({"a": on("t4", NodeShare("n", 0))}, "node n: 0; 1 to 4 are accepted"),
        ({"a": on("t4", NodeShare("n", 5))}, "node n: 5; 1 to 4 are accepted"),
        ({"a": on("t4", NodeShare("n", cast(int, 1.5)))}, "node n: 1.5; 1 to 4 are accepted"),
        ({"a": on("t4", NodeShare("n", 1, share=2.0))}, "node n: 2.0 of each"),
        ({"a": on("t4", NodeShare("p", 1))}, "job a gets GPUs of node p, which is of pool team"),
        ({"c": on("t4", NodeShare("n", 1))}, "job c gets GPUs of node n, which is of no pool"),
        (
            {"a": on("t4", NodeShare("n", 3)), "b": on("t4", NodeShare("n", 2))},
            "jobs get 5 GPUs of node n, which has 4",
        ),
    ],
)
def test_a_placement_that_cannot_be_is_named_with_its_job_and_node(placements: Any, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        check_plan(Plan(placements), ROUND)


@pytest.mark.parametrize(
    "plan", [None, {}, Plan(cast(Any, None)), Plan({}, again_s=math.nan), Plan({}, notes=cast(Any, ["late"]))]
)
def test_what_is_no_plan_is_refused(plan: object) -> None:
    with pytest.raises(ValueError, match=r"^plan: "):
        check_plan(plan, ROUND)
    with pytest.raises(ValueError, match="again_s 'soon' is no time"):
        check_plan(Plan({}, again_s=cast(float, "soon")), ROUND)


def test_a_policy_that_crosses_pools_minds_itself_whose_nodes_are_whose() -> None:
    lent = Plan({"a": on("t4", NodeShare("p", 1))})
    with pytest.raises(WrongPlan, match="which is of pool team"):
        check_plan(lent, ROUND)
    check_plan(lent, ROUND, crosses_pools=True)
