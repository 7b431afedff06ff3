"""Promises: nodes are counted by pool and GPU type, asleep or not, and have a job if the plan says so."""

from __future__ import annotations

from coadapt.core.cluster import Cluster, Node
from coadapt.policies.contract.round import Plan, Round
from coadapt.scheduler.services.contract import NodeKind
from coadapt.scheduler.services.counting import counts_of

from tests.support.rounds import on
from tests.support.sleeping import machines


def test_nodes_are_counted_by_kind_whether_they_sleep_or_not() -> None:
    awake = (*machines(3), *machines(1, "a100"), Node("head", "", 0))
    asleep = (*machines(2, first=3), *machines(1, pool="lab", first=5))
    round = Round(0.0, 60.0, Cluster(awake), [], asleep)
    found = counts_of(42.0, round, Plan({"x": on("t4", n0=8, n1=8)}))
    assert found.at_s == 42.0
    assert found.total == {NodeKind("", "t4"): 5, NodeKind("", "a100"): 1, NodeKind("lab", "t4"): 1}
    assert found.running == {NodeKind("", "t4"): 2, NodeKind("", "a100"): 0, NodeKind("lab", "t4"): 0}


def test_a_round_of_one_pool_names_it_once() -> None:
    round = Round(0.0, 60.0, Cluster(machines(2), pool="lab"), [])
    assert counts_of(0.0, round, Plan({})).total == {NodeKind("lab", "t4"): 2}
