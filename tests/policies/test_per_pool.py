"""Pools are planned each by itself, with a policy that keeps its state, and share nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.decisions import Placed, Waiting, WaitReason
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.policy import Policy
from coadapt.policies.contract.round import JobView, Note, Plan, Round
from coadapt.policies.contract.traits import PolicyTraits
from coadapt.policies.per_pool import PerPool, rounds_of_pools

from tests.support.rounds import assert_within, cluster, job, on, rigid


def pooled(text: str, pool: str) -> tuple[Cluster, ...]:
    nodes = [replace(node, id=f"{pool}{node.id}", pool=pool) for node in cluster(text).nodes]
    return (Cluster(tuple(nodes)),)


def joined(*parts: tuple[Cluster, ...]) -> Cluster:
    return Cluster(tuple(node for part in parts for one in part for node in one.nodes))


def of_pool(view: JobView, pool: str | None) -> JobView:
    return replace(view, spec=view.spec.model_copy(update={"pool": pool}))


BOTH = joined(pooled("1x t4:4", "x"), pooled("1x t4:2", "y"))


def test_a_cluster_without_pools_is_planned_by_one_policy_bit_for_bit() -> None:
    round = Round(60.0, 60.0, cluster("2x a:4"), [job("1"), job("2")])
    assert PerPool(lambda: make_policy("sia")).plan(round).placements == make_policy("sia").plan(round).placements


def test_jobs_get_gpus_of_their_own_pool_only() -> None:
    jobs = [of_pool(job(str(i), min_gpus=1), pool) for i, pool in enumerate("xxxxyyy")]
    plan = PerPool(lambda: make_policy("fifo")).plan(Round(60.0, 60.0, BOTH, jobs))
    assert_within(plan, BOTH)
    held = {name: {share.node_id[0] for share in placed.shares} for name, placed in plan.placements.items()}
    assert held == {str(i): {pool} for i, pool in enumerate("xxxxyy")}


def test_each_pool_keeps_a_policy_of_its_own() -> None:
    made: list[Counting] = []

    class Counting(Policy):
        traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=False)

        def __init__(self) -> None:
            self.rounds = 0
            made.append(self)

        def plan(self, round: Round) -> Plan:
            self.rounds += 1
            return Plan(
                {},
                objective=1.0,
                bound=2.0,
                prices={"t4": float(len(round.jobs))},
                notes=[Note("late", "of x")],
                again_s=9.0 - len(round.jobs),
            )

    policy = PerPool(Counting)
    jobs = [of_pool(job("1"), "x"), of_pool(job("2"), "y"), of_pool(job("3"), "y")]
    for _ in range(3):
        plan = policy.plan(Round(0.0, 60.0, BOTH, jobs))
    assert sorted(one.rounds for one in made) == [0, 3, 3]  # the first is asked for traits alone
    assert plan.again_s == 7.0
    assert (plan.objective, plan.bound, plan.gap) == (2.0, 4.0, 1.0)
    assert plan.prices == {"t4@x": 1.0, "t4@y": 2.0}
    assert plan.notes == [Note("pool x: late", "of x"), Note("pool y: late", "of x")]


@pytest.mark.parametrize(
    "gives", [ArithmeticError("lost"), Plan({"gone": on("t4", n0=1)})], ids=["raises", "invalid"]
)
def test_a_pool_that_cannot_be_planned_keeps_what_it_has_and_costs_the_others_nothing(gives: object) -> None:
    class Fails(Policy):
        traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=True)

        def plan(self, round: Round) -> Plan:
            if round.cluster.pool == "y":
                if isinstance(gives, Exception):
                    raise gives
                assert isinstance(gives, Plan)
                return gives
            return make_policy("fifo").plan(round)

    has = Placement("t4", (NodeShare("yt4-000", 1),))
    jobs = [of_pool(rigid("1"), "x"), of_pool(replace(rigid("2"), placement=has), "y"), of_pool(rigid("3"), "y")]
    policy, round = PerPool(Fails), Round(0.0, 60.0, BOTH, jobs)
    plan = policy.plan(round)
    assert set(plan.placements) == {"1", "2"}
    assert plan.placements["2"] is has
    assert set(plan.failures) == {"y"}
    waits = plan.decision("3")
    assert isinstance(waits, Waiting)
    assert waits.detail in policy.explain("3", round, plan).sentences


@pytest.mark.parametrize("pool", ["z", None])
def test_a_job_of_a_pool_without_nodes_gets_nothing(pool: str | None) -> None:
    jobs = [of_pool(job("1"), pool), of_pool(job("2"), "x")]
    round, policy = Round(0.0, 60.0, BOTH, jobs), PerPool(lambda: make_policy("fifo"))
    assert set(rounds_of_pools(round)) == {"x"}
    plan = policy.plan(round)
    waits, placed = plan.decision("1"), plan.decision("2")
    assert isinstance(waits, Waiting)
    assert waits.reason is WaitReason.POOL_EMPTY
    assert isinstance(placed, Placed)
    noted = replace(plan, notes=("pool x: the search ended at a limit",))
    told = policy.explain("1", round, noted)
    assert told.sentences == ("1 gets nothing this round.", waits.detail)  # no GPUs or notes of other pools
    assert told.facts["free_gpus"] == {}
    assert policy.explain("2", round, plan).chosen == "1xt4"


def test_each_job_is_explained_by_its_own_pool() -> None:
    jobs = [of_pool(job(str(i)), pool) for i, pool in enumerate("xxyyy")]
    round, policy = Round(60.0, 60.0, BOTH, jobs), PerPool(lambda: make_policy("fifo"))
    plan = policy.plan(round)
    ranks = [policy.explain(str(i), round, plan).facts["rank"] for i in range(5)]
    assert ranks == [1, 2, 1, 2, 3]
    assert [policy.explain(str(i), round, plan).facts["jobs"] for i in range(5)] == [2, 2, 3, 3, 3]


@pytest.mark.parametrize("policy", ["fifo", "sia", "coadapt"])
def test_a_job_gets_no_nodes_of_another_pool_where_there_is_but_one(policy: str) -> None:
    without = Cluster((Node("1", "a", 2),))
    within = Cluster((Node("1", "a", 2, pool="x"),))
    for nodes, stays, waits in ((without, None, "x"), (within, "x", None), (within, "x", "y")):
        policies = PerPool(lambda: make_policy(policy))
        alone = Round(0.0, 60.0, nodes, [of_pool(job("1"), waits)])
        both = Round(60.0, 60.0, nodes, [*alone.jobs, of_pool(job("2"), stays)])
        assert policies.plan(alone).placements == {}
        plan = policies.plan(both)
        assert set(plan.placements) == {"2"}
        found = plan.decision("1")
        assert isinstance(found, Waiting)
        assert found.reason is WaitReason.POOL_EMPTY
        assert found.detail in policies.explain("1", both, plan).sentences


@pytest.mark.parametrize("policy", ["fifo", "las", "sia", "coadapt", "pollux", "gavel", "shockwave"])
def test_what_a_pool_lacks_is_said_of_the_pool_and_not_of_the_cluster(policy: str) -> None:
    nodes = Cluster((Node("n", "a100", 8), Node("m", "t4", 4, pool="lab")))
    jobs = [
        of_pool(rigid("a", 1, gpu_types=["a100"]), "lab"),
        of_pool(rigid("b", 8), "lab"),
        rigid("c", 1, gpu_types=["t4"]),
    ]
    pools, round = PerPool(lambda: make_policy(policy)), Round(60.0, 60.0, nodes, jobs)
    plan = pools.plan(round)
    assert [pools.explain(id, round, plan).sentences[1] for id in "abc"] == [
        "It runs on a100 only; pool lab has t4.",
        "It needs 8 GPUs of one type; pool lab has at most 4.",
        "It runs on t4 only; what belongs to no pool has a100.",
    ]
